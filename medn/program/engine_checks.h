/* What is checked of a program before anything of it is run. */
#ifndef MEDN_ENGINE_CHECKS_H
#define MEDN_ENGINE_CHECKS_H

#include "engine_program.h"

static int is_value(const Machine *m, int64_t place, int64_t width, int single) {
    if (width < 1 || width > INT32_MAX) return 0;
    if (place >= 0) return place <= m->slots - slots_of(width, single);
    return !single && -(place + 1) <= m->constant_count - width;
}

static int is_table(const Machine *m, const int64_t *step, int64_t index, int64_t item, int64_t count) {
    if (step[TABLE] < 0 || step[TABLE] >= m->table_count - index) return 0;
    const int64_t place = step[TABLE] + index;
    if (m->tables[place].item != item) return 0;
    return count < 0 ? m->tables[place].count > 0 : m->tables[place].count == count;
}

static int are_places(const Array *places, int64_t width) {
    for (int64_t i = 0; i < places->count; i++) {
        const int32_t place = ((const int32_t *)places->content)[i];
        if (place < 0 || place >= width) return 0;
    }
    return 1;
}

static int are_trees(const Array *nodes, const Array *roots, int64_t width) {
    /* Every node leads to one behind it or, a leaf, to itself: so every walk ends. A leaf's threshold is NaN, which no
     * number is below, minus infinity neither. */
    for (int64_t i = 0; i < nodes->count; i++) {
        const Node node = ((const Node *)nodes->content)[i];
        const int asks = node.threshold == node.threshold, is_leaf = node.right == i && !asks;
        if (node.feature < 0 || node.feature >= width || node.right >= nodes->count) return 0;
        if (!is_leaf && (!asks || node.right <= i || i + 1 >= nodes->count)) return 0;
    }
    return are_places(roots, nodes->count);
}

/* How many levels trees have that were saved in preorder: a left child follows its node, a right child all that is below
 * the left one. 0 where nodes stand in any other order, so that a walk might not end. */
static int64_t levels_of(
    const int16_t *feature, const int32_t *right, int64_t count, const int32_t *roots, int64_t trees, int32_t *waiting) {
    int64_t most = 0;
    for (int64_t t = 0; t < trees; t++) {
        const int64_t root = roots[t], end = t + 1 < trees ? roots[t + 1] : count;
        int64_t held = 0, depth = 0;
        if (root < 0 || root >= end || end > count || (!t && root)) return 0;
        for (int64_t i = root; i < end; i++) {
            if (depth > most) most = depth;
            if (feature[i] >= 0) {
                waiting[2 * held] = right[i];
                waiting[2 * held++ + 1] = (int32_t)++depth;
            } else if (held) {
                if (root + waiting[2 * --held] != i + 1) return 0;
                depth = waiting[2 * held + 1];
            } else if (i + 1 != end)
                return 0;
        }
        if (held) return 0;
    }
    return most + 1;
}

static PyObject *tree_levels(PyObject *module, PyObject *args) {
    PyObject *given[3];
    Py_buffer views[3];
    int held = 0;
    if (!PyArg_ParseTuple(args, "OOO", &given[0], &given[1], &given[2])) return NULL;
    for (; held < 3; held++)
        if (PyObject_GetBuffer(given[held], &views[held], PyBUF_C_CONTIGUOUS) < 0) break;
    const int64_t count = held ? views[0].len / 2 : 0;
    const int fits = held == 3 && views[0].itemsize == 2 && views[1].itemsize == 4 && views[2].itemsize == 4 &&
                     views[1].len == 4 * count && count < INT32_MAX;
    int32_t *waiting = fits ? PyMem_RawMalloc((2 * count + 2) * sizeof(int32_t)) : NULL;
    PyObject *found = NULL;
    if (waiting)
        found = PyLong_FromLongLong(
            levels_of(views[0].buf, views[1].buf, count, views[2].buf, views[2].len / 4, waiting));
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the arrays of trees do not fit one another");
    PyMem_RawFree(waiting);
    while (held > 0) PyBuffer_Release(&views[--held]);
    return found;
}

static int are_bits(const Machine *m, const int64_t *step, int64_t width) {
    /* Every feature has thresholds, and its rows in the table begin where those of the one before end. */
    if (!is_table(m, step, 0, 4, -1) || !is_table(m, step, 1, 4, -1) || !is_table(m, step, 4, 8, 2)) return 0;
    const Array *tables = m->tables + step[TABLE];
    const int32_t *features = tables[0].content;
    const int64_t item = ((const int64_t *)tables[4].content)[0], stride = ((const int64_t *)tables[4].content)[1];
    const int64_t count = tables[0].count / 3;
    int64_t before = 0;
    if (tables[0].count % 3 || count > MOST_FEATURES || (item != 1 && item != 2 && item != 4 && item != 8)) return 0;
    for (int64_t f = 0; f < count; f++) {
        if (features[3 * f] < 0 || features[3 * f] >= width || features[3 * f + 1] != before || features[3 * f + 2] < 1)
            return 0;
        before += features[3 * f + 2];
    }
    if (before != tables[1].count || stride < 32 || stride % 32 || stride > INT32_MAX) return 0;
    return is_table(m, step, 2, 1, (before + count) * stride) && is_table(m, step, 3, 4, stride * 8);
}

static const char *wrong_step(const Machine *m, const int64_t *step) {
    const int64_t op = step[OPERATION], width = step[WIDTH], inner = step[A_WIDTH];
    if (op < 0 || op >= OPERATIONS) return "an operation that there is not";
    if (step[CONDITION] < -1 || step[CONDITION] >= m->slots) return "a condition outside its memory";
    const int out_single = op == SINGLE || op == ADD_SINGLE || op == SILU || op == DENSE_SINGLE;
    const int in_single = op == DOUBLE || op == ADD_SINGLE || op == SILU || op == DENSE_SINGLE;
    if (step[OUT] < m->inputs || !is_value(m, step[OUT], width, out_single)) return "a result outside its memory";
    if (!is_value(m, step[A], inner, in_single)) return "a value outside its memory";
    if (!is_apart(step, step[A], inner, in_single, out_single)) return "a result that overwrites a value";
    const int operands = op <= EQUAL || op == ADD_SINGLE ? 2 : op == WHERE ? 3 : 1;
    if (operands == 1 && op != COPY && step[A] < 0) return "a constant where a value must be";
    for (int i = 1; i < operands; i++) {
        const int64_t place = step[A + 2 * i], wide = step[A_WIDTH + 2 * i];
        if (!is_value(m, place, wide, in_single)) return "a value outside its memory";
        if (!is_apart(step, place, wide, in_single, out_single)) return "a result that overwrites a value";
        if (wide != width && (wide != 1 || in_single)) return "values of different widths";
    }
    if (step[B] < -m->constant_count - 1 || step[B] >= m->slots) return "a value that there is not";
    switch (op) {
    case SUM: case LEAST: case MOST: return width == 1 ? NULL : "a sum of several numbers";
    case TAKE:
        return is_table(m, step, 0, 4, width) && are_places(&m->tables[step[TABLE]], inner) ? NULL : "wrong places";
    case LOOK_UP:
        return inner == 1 && is_table(m, step, 0, 8, -1) && m->tables[step[TABLE]].count % width == 0 ? NULL
                                                                                                    : "a wrong table";
    case DENSE_SINGLE: case DENSE_DOUBLE: {
        const int64_t item = op == DENSE_SINGLE ? 4 : 8;
        if (inner > INT64_MAX / width) return "a wrong matrix";
        if (op == DENSE_SINGLE && !is_table(m, step, 2, item, (width + TILE - 1) / TILE * TILE * inner))
            return "a wrong matrix";
        return is_table(m, step, 0, item, inner * width) && is_table(m, step, 1, item, width) ? NULL : "a wrong matrix";
    }
    case TREES:
        if (width != 1 || !is_table(m, step, 0, sizeof(Node), -1) || !is_table(m, step, 1, 4, -1)) return "wrong trees";
        return are_trees(&m->tables[step[TABLE]], &m->tables[step[TABLE] + 1], inner) ? NULL : "wrong trees";
    case BIT_TREES: return width == 1 && are_bits(m, step, inner) ? NULL : "wrong trees";
    case OBLIVIOUS_TREES: {
        if (width != 1 || !is_table(m, step, 0, 4, -1) || !is_table(m, step, 3, 8, 1)) return "wrong oblivious trees";
        const Array *tables = m->tables + step[TABLE];
        const int64_t levels = *(const int64_t *)tables[3].content, count = tables[0].count;
        if (levels < 1 || levels > 16 || count % levels || !are_places(tables, inner)) return "wrong oblivious trees";
        return is_table(m, step, 1, 4, count) && is_table(m, step, 2, 4, (count / levels) << levels)
                   ? NULL : "wrong oblivious trees";
    }
    case KERNEL: {
        /* Points come in whole tiles; what they are filled up with has no weight. */
        if (width != 1 || !is_table(m, step, 2, 8, -1) || !is_table(m, step, 3, 8, 2)) return "wrong points";
        const int64_t points = m->tables[step[TABLE] + 2].count;
        if (points % POINTS || points > INT64_MAX / inner) return "wrong points";
        return is_table(m, step, 0, 8, inner * points) && is_table(m, step, 1, 8, points) ? NULL : "wrong points";
    }
    case NEAREST: {
        if (width != 1 || !is_table(m, step, 1, 8, -1) || !is_table(m, step, 2, 8, 2)) return "wrong points";
        const Array *tables = m->tables + step[TABLE];
        if (tables[1].count > INT64_MAX / inner || !is_table(m, step, 0, 8, inner * tables[1].count))
            return "wrong points";
        const double wanted = *(const double *)tables[2].content;
        return wanted >= 1.0 && (wanted <= MOST_NEIGHBOURS || tables[1].count <= MOST_NEIGHBOURS) ? NULL
                                                                                                  : "wrong points";
    }
    default:
        return inner == width || (operands > 1 && inner == 1 && !in_single) ? NULL : "values of different widths";
    }
}

static const char *wrong_machine(const Machine *m) {
    if (m->inputs < 0 || m->slots < 1 || m->slots > INT32_MAX || m->inputs > m->slots) return "a memory of no size";
    for (int64_t i = 0; i < m->outputs; i++)
        if (m->output_slots[i] < 0 || m->output_slots[i] >= m->slots) return "an output outside its memory";
    for (int64_t s = 0; s < m->steps; s++) {
        const char *wrong = wrong_step(m, m->code + s * FIELDS);
        if (wrong) return wrong;
    }
    return NULL;
}

#endif
