#include "catalog/index_options.h"

namespace index_table {
namespace {

// Where an option is not as it is by default, the definition has its word.
struct Word {
    const char *word;
    bool IndexOptions::*option;
    bool value;
};
constexpr Word kWords[] = {{"unique", &IndexOptions::is_unique, true},
                           {"nulls_not_distinct", &IndexOptions::nulls_distinct, false},
                           {"deferrable", &IndexOptions::is_deferrable, true},
                           {"initially_deferred", &IndexOptions::initially_deferred, true},
                           {"deferred", &IndexOptions::is_deferred, true},
                           {"invisible", &IndexOptions::is_visible, false}};

} // namespace

Strategy ParseStrategy(const char *name) {
    for (Strategy strategy : {Strategy::Normalized, Strategy::Partial, Strategy::Denormalized})
        if (strcmp(name, StrategyName(strategy)) == 0)
            return strategy;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown strategy \"%s\"", name),
             errhint("The strategies are normalized, partial and denormalized.")));
}

const char *StrategyName(Strategy strategy) {
    switch (strategy) {
    case Strategy::Normalized:
        return "normalized";
    case Strategy::Partial:
        return "partial";
    case Strategy::Denormalized:
        return "denormalized";
    }
    pg_unreachable();
}

void CheckOptions(const IndexOptions &options) {
    if (!options.is_unique && (!options.nulls_distinct || options.is_deferrable))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("%s is for unique index tables",
                        options.nulls_distinct ? "is_deferrable" : "nulls_distinct => false"),
                 errhint("Use is_unique => true, or leave it out.")));
}

bool AreConsistent(const IndexOptions &options) {
    return (options.is_unique || (!options.is_deferrable && options.nulls_distinct)) &&
           (!options.initially_deferred || options.is_deferrable) &&
           (!options.is_unique || !options.is_deferred);
}

void AppendOptions(StringInfo text, const IndexOptions &options) {
    for (const Word &word : kWords)
        if (options.*word.option == word.value)
            appendStringInfo(text, " %s", word.word);
}

bool ReadOption(const char *word, IndexOptions *options) {
    for (const Word &known : kWords)
        if (strcmp(known.word, word) == 0) {
            options->*known.option = known.value;
            return true;
        }
    return false;
}

} // namespace index_table
