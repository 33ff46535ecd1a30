#include "core/transition_rows.h"

namespace index_table {

TransitionRows BeginTransition(Tuplestorestate *rows, Relation rel, const Bitmapset *generated) {
    TransitionRows transition = {.rows = rows, .pointer = 0, .slot = nullptr, .generated = nullptr};
    if (!rows)
        return transition;
    transition.pointer = tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND);
    tuplestore_select_read_pointer(rows, transition.pointer);
    tuplestore_rescan(rows);
    transition.slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsMinimalTuple);
    if (generated)
        transition.generated = BeginGenerated(rel, generated);
    return transition;
}

bool NextRow(TransitionRows *transition, AttrNumber last) {
    if (!transition->rows)
        return false;
    tuplestore_select_read_pointer(transition->rows, transition->pointer);
    if (!tuplestore_gettupleslot(transition->rows, true, false, transition->slot)) {
        transition->rows = nullptr;
        return false;
    }
    slot_getsomeattrs(transition->slot, last);
    return true;
}

bool CompleteRow(TransitionRows *transition) {
    return transition->generated && FillGenerated(transition->generated, transition->slot);
}

void EndTransition(TransitionRows *transition) {
    if (transition->generated)
        EndGenerated(transition->generated);
    if (transition->slot)
        ExecDropSingleTupleTableSlot(transition->slot);
}

bool Differs(TupleTableSlot *before, TupleTableSlot *after, const AttrNumber *attnos, int count) {
    TupleDesc descriptor = after->tts_tupleDescriptor;
    for (int i = 0; i < count; i++) {
        int index = attnos[i] - 1;
        if (before->tts_isnull[index] != after->tts_isnull[index])
            return true;
        if (before->tts_isnull[index])
            continue;
        Form_pg_attribute att = TupleDescAttr(descriptor, index);
        Datum a = before->tts_values[index];
        Datum b = after->tts_values[index];
        if (att->attlen == -1) {
            Size length = VARSIZE_ANY(DatumGetPointer(a));
            if (length == VARSIZE_ANY(DatumGetPointer(b)) &&
                memcmp(DatumGetPointer(a), DatumGetPointer(b), length) == 0)
                continue; // a toasted value that stayed is the same pointer
        }
        if (!datum_image_eq(a, b, att->attbyval, att->attlen))
            return true;
    }
    return false;
}

} // namespace index_table
