#include "maintenance/entries.h"

namespace index_table {
namespace {

int CompareElements(EntryMaker *maker, const Elements &elements, int a, int b) {
    if (elements.nulls[a] || elements.nulls[b])
        return static_cast<int>(elements.nulls[a]) - static_cast<int>(elements.nulls[b]);
    const Key &key = maker->leaf_table->table->key;
    return DatumGetInt32(FunctionCall2Coll(&maker->compare, key.columns[key.multi_valued].collation,
                                           elements.values[a], elements.values[b]));
}

void AddElement(Elements *elements, int *capacity, Datum value, bool isnull) {
    if (elements->count == *capacity) {
        *capacity *= 2;
        elements->values =
            static_cast<Datum *>(repalloc_huge(elements->values, sizeof(Datum) * *capacity));
        elements->nulls = static_cast<bool *>(repalloc_huge(elements->nulls, *capacity));
    }
    elements->values[elements->count] = value;
    elements->nulls[elements->count++] = isnull;
}

void ApplyPerElement(EntryMaker *maker, ExprState *expr, Elements *elements) {
    for (int i = 0; i < elements->count; i++) {
        maker->context->caseValue_datum = elements->values[i];
        maker->context->caseValue_isNull = elements->nulls[i];
        elements->values[i] = ExecEvalExpr(expr, maker->context, &elements->nulls[i]);
    }
}

// Keeps the first of equal elements.
void Deduplicate(EntryMaker *maker, Elements *elements) {
    if (elements->count < 2)
        return;
    int *order = static_cast<int *>(palloc(sizeof(int) * elements->count));
    for (int i = 0; i < elements->count; i++)
        order[i] = i;
    // A comparison that raises leaves only this array behind, in per-tuple memory.
    std::sort(order, order + elements->count, [&](int a, int b) {
        int result = CompareElements(maker, *elements, a, b);
        return result != 0 ? result < 0 : a < b;
    });
    Elements distinct = {};
    distinct.values = static_cast<Datum *>(palloc(sizeof(Datum) * elements->count));
    distinct.nulls = static_cast<bool *>(palloc(elements->count));
    for (int i = 0; i < elements->count; i++) {
        if (i > 0 && CompareElements(maker, *elements, order[i - 1], order[i]) == 0)
            continue;
        distinct.values[distinct.count] = elements->values[order[i]];
        distinct.nulls[distinct.count++] = elements->nulls[order[i]];
    }
    *elements = distinct;
}

Elements ReadArray(EntryMaker *maker, Datum array, bool isnull) {
    Elements elements = {};
    if (!isnull)
        deconstruct_array(DatumGetArrayTypeP(array), maker->element_type, maker->element_length,
                          maker->element_by_value, maker->element_align, &elements.values,
                          &elements.nulls, &elements.count);
    return elements;
}

Elements ReadSet(EntryMaker *maker) {
    int capacity = 16;
    Elements elements = {};
    elements.values = static_cast<Datum *>(palloc(sizeof(Datum) * capacity));
    elements.nulls = static_cast<bool *>(palloc(capacity));
    if (maker->set_scalar) {
        bool isnull;
        Datum value = ExecEvalExpr(maker->set_scalar, maker->context, &isnull);
        AddElement(&elements, &capacity, value, isnull);
        return elements;
    }
    Oid type = exprType(reinterpret_cast<const Node *>(maker->set_call->expr));
    int16 length;
    bool by_value;
    get_typlenbyval(type, &length, &by_value);
    for (;;) {
        bool isnull;
        ExprDoneCond done;
        Datum value = ExecMakeFunctionResultSet(
            maker->set_call, maker->context, maker->context->ecxt_per_tuple_memory, &isnull, &done);
        if (done == ExprEndResult)
            break;
        // A value may live only until the next one is asked for.
        AddElement(&elements, &capacity, isnull ? 0 : datumCopy(value, by_value, length), isnull);
        if (done == ExprSingleResult)
            break;
        CHECK_FOR_INTERRUPTS();
    }
    return elements;
}

} // namespace

EntryMaker *MakeEntryMaker(const LeafTable *leaf_table, int32 partition_id, ExprContext *context) {
    Assert(IsKnown(leaf_table->table) && partition_id >= 0 && IsMemoryFreed());
    const IndexTable *table = leaf_table->table;
    const Key &key = table->key;
    EntryMaker *maker = static_cast<EntryMaker *>(palloc0(sizeof(EntryMaker)));
    maker->leaf_table = leaf_table;
    maker->partition_id = partition_id;
    maker->context = context;
    maker->values = static_cast<Datum *>(palloc0(sizeof(Datum) * table->column_count));
    maker->nulls = static_cast<bool *>(palloc0(table->column_count));
    if (!leaf_table->has_expressions)
        return maker;

    if (leaf_table->predicate)
        maker->predicate = ExecInitQual(make_ands_implicit(leaf_table->predicate), nullptr);
    maker->keys = static_cast<ExprState **>(palloc0(sizeof(ExprState *) * key.count));
    maker->per_element = static_cast<ExprState **>(palloc0(sizeof(ExprState *) * key.count));
    for (int i = 0; i < key.count; i++) {
        Expr *expr = leaf_table->key_exprs[i];
        if (key.columns[i].shape == KeyShape::SetReturning) {
            if (expression_returns_set(reinterpret_cast<Node *>(expr)))
                maker->set_call = ExecInitFunctionResultSet(expr, context, nullptr);
            else
                maker->set_scalar = ExecInitExpr(expr, nullptr);
        } else if (expr) {
            maker->keys[i] = ExecInitExpr(expr, nullptr);
        }
        if (leaf_table->per_element[i])
            maker->per_element[i] = ExecInitExpr(leaf_table->per_element[i], nullptr);
    }
    if (key.multi_valued >= 0) {
        const KeyColumn &column = key.columns[key.multi_valued];
        Oid family = get_opclass_family(column.opclass);
        Oid input = get_opclass_input_type(column.opclass);
        fmgr_info(get_opfamily_proc(family, input, input, BTORDER_PROC), &maker->compare);
        if (column.shape == KeyShape::ArrayElements) {
            maker->element_type =
                get_base_element_type(exprType(reinterpret_cast<Node *>(column.expr)));
            get_typlenbyvalalign(maker->element_type, &maker->element_length,
                                 &maker->element_by_value, &maker->element_align);
        }
    }
    return maker;
}

bool FillEntry(EntryMaker *maker, TupleTableSlot *row) {
    Assert(!TTS_EMPTY(row));
    const LeafTable *leaf_table = maker->leaf_table;
    const IndexTable *table = leaf_table->table;
    if (leaf_table->has_expressions)
        maker->context->ecxt_scantuple = row;
    if (maker->predicate && !ExecQual(maker->predicate, maker->context))
        return false;
    for (int i = 0; i < table->key.count; i++) {
        if (leaf_table->key_attnos[i] != 0)
            maker->values[i] = slot_getattr(row, leaf_table->key_attnos[i], &maker->nulls[i]);
        else if (i != table->key.multi_valued)
            maker->values[i] =
                ExecEvalExprSwitchContext(maker->keys[i], maker->context, &maker->nulls[i]);
    }
    maker->values[table->partition_position()] = Int32GetDatum(maker->partition_id);
    for (int i = 0; i < table->copied_count; i++) {
        int position = table->copied[i].position;
        maker->values[position] =
            slot_getattr(row, leaf_table->copied_attnos[i], &maker->nulls[position]);
    }
    return true;
}

Elements FindElements(EntryMaker *maker) {
    Assert(maker->leaf_table->table->key.multi_valued >= 0);
    const Key &key = maker->leaf_table->table->key;
    MemoryContext caller = MemoryContextSwitchTo(maker->context->ecxt_per_tuple_memory);
    Elements elements;
    if (key.columns[key.multi_valued].shape == KeyShape::ArrayElements) {
        bool isnull;
        Datum array = ExecEvalExpr(maker->keys[key.multi_valued], maker->context, &isnull);
        elements = ReadArray(maker, array, isnull);
    } else {
        elements = ReadSet(maker);
    }
    if (maker->per_element[key.multi_valued])
        ApplyPerElement(maker, maker->per_element[key.multi_valued], &elements);
    Deduplicate(maker, &elements);
    MemoryContextSwitchTo(caller);
    return elements;
}

} // namespace index_table
