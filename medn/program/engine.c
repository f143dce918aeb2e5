/* A fixed interpreter of flat programs (medn/program/program.py), and the quick way from a query to its answer.
 *
 * A program comes as numbers: steps, constants and arrays. All of them are copied and checked when a Machine is made,
 * so that running it reads and writes nothing outside, whatever a file held. A Machine never changes after that:
 * threads share it, each run with memory of its own, and many rows are computed without Python's lock.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine_math.h"

#if defined(__GNUC__) && defined(__x86_64__) && !defined(MEDN_ONE_TARGET)
#define HAS_NEWER_TARGET 1
#endif

#if defined(__GNUC__)
typedef float eight __attribute__((vector_size(32), may_alias));
typedef float loose_eight __attribute__((vector_size(32), aligned(4), may_alias));
#endif

enum { BLOCK = 32, WALKS = 8, POINTS = 64, MOST_NEIGHBOURS = 256, MOST_FEATURES = 512, SEGMENT = 1024, TILE = 6, ON_STACK = 4096, MOST_NAMES = 128, MOST_WAYS = 1024 };

/* What stands where in a step. Places below zero are constants, the first one -1. */
enum { OPERATION, CONDITION, TRUTH, OUT, WIDTH, A, A_WIDTH, B, B_WIDTH, C, C_WIDTH, TABLE, FIELDS };

/* In the order of OPERATIONS in medn/program/c_engine.py. */
enum {
    ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, REMAINDER, MINIMUM, MAXIMUM, LESS, LESS_EQUAL, EQUAL,
    LOG, LOG1P, EXP, SQRT, SIN, COS, FLOOR, RINT, ABSOLUTE, ROUNDED, SUM, LEAST, MOST,
    WHERE, COPY, TAKE, LOOK_UP, SINGLE, DOUBLE, ADD_SINGLE, SILU, DENSE_SINGLE, DENSE_DOUBLE,
    TREES, BIT_TREES, OBLIVIOUS_TREES, KERNEL, NEAREST, OPERATIONS
};

typedef struct {
    void *content;
    int64_t count; /* of its items */
    int64_t item;  /* bytes of each */
} Array;

typedef struct {
    float threshold;
    int32_t feature, right;
    float value;
} Node;

typedef struct {
    PyObject_HEAD
    int64_t steps, inputs, slots, outputs, constant_count, table_count;
    int64_t *code;
    int64_t *output_slots;
    double *constants;
    Array *tables;
} Machine;

typedef struct {
    double squares[MOST_NEIGHBOURS], values[MOST_NEIGHBOURS];
    int64_t wanted, held, worst;
} Neighbours;

static void neighbours_start(Neighbours *near, int64_t wanted) {
    near->wanted = wanted;
    near->held = near->worst = 0;
}

static void neighbours_offer(Neighbours *near, double square, double value) {
    int64_t place = near->held;
    if (near->held == near->wanted) {
        if (!(square < near->squares[near->worst])) return;
        place = near->worst;
    } else
        near->held++;
    near->squares[place] = square;
    near->values[place] = value;
    if (near->held == near->wanted) {
        near->worst = 0;
        for (int64_t i = 1; i < near->held; i++)
            if (near->squares[i] > near->squares[near->worst]) near->worst = i;
    }
}

static double neighbours_mean(const Neighbours *near, double power) {
    double sum = 0.0, weights = 0.0;
    for (int64_t i = 0; i < near->held; i++) {
        const double weight = pow(sqrt(near->squares[i]) + 1e-6, -power);
        sum += weight * near->values[i];
        weights += weight;
    }
    return sum / weights;
}

INLINE int32_t either(int flag, int32_t yes, int32_t no) {
    return no ^ ((yes ^ no) & -flag); /* without a branch that nobody could foresee */
}

INLINE int lowest_bit(uint64_t word) {
    /* 0, which is no leaf, where there is none. */
#if defined(__GNUC__)
    return __builtin_ctzll(word | (uint64_t)(word == 0));
#else
    int found = 0;
    if (!word) return 0;
    for (; !(word & 1); word >>= 1) found++;
    return found;
#endif
}

INLINE double at_place(const double *values, int64_t place, int64_t width, int64_t w, int r, int rows) {
    const int64_t which = width > 1 ? w : 0;
    return place >= 0 ? values[which * rows + r] : values[which];
}

/* Once for every processor, and once for those of the last ten years, which do eight numbers at a time. */

#define TARGET
#define ROWS 1
#define NAMED(name) name##_of_one
#include "engine_steps.h"
#undef ROWS
#undef NAMED
#define ROWS 32
#define NAMED(name) name##_of_many
#include "engine_steps.h"
#undef ROWS
#undef NAMED
#undef TARGET

typedef void (*Run)(const Machine *machine, double *RESTRICT memory);
static Run run_one = run_steps_of_one, run_many = run_steps_of_many;

#if defined(HAS_NEWER_TARGET)
#define TARGET __attribute__((target("avx2,fma,bmi2")))
#define ROWS 1
#define NAMED(name) name##_of_one_newer
#include "engine_steps.h"
#undef ROWS
#undef NAMED
#define ROWS 32
#define NAMED(name) name##_of_many_newer
#include "engine_steps.h"
#undef ROWS
#undef NAMED
#undef TARGET

static void choose_target(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        run_one = run_steps_of_one_newer;
        run_many = run_steps_of_many_newer;
    }
}
#else
static void choose_target(void) {}
#endif

/* ---- What is checked before anything is run ---- */

static int64_t slots_of(int64_t width, int single) { return single ? (width + 1) / 2 : width; }

static int is_value(const Machine *m, int64_t place, int64_t width, int single) {
    if (width < 1 || width > INT32_MAX) return 0;
    if (place >= 0) return place <= m->slots - slots_of(width, single);
    return !single && -(place + 1) <= m->constant_count - width;
}

static int is_apart(const int64_t *step, int64_t place, int64_t width, int single, int out_single) {
    return place < 0 || place >= step[OUT] + slots_of(step[WIDTH], out_single) ||
           step[OUT] >= place + slots_of(width, single);
}

static int is_table(const Machine *m, const int64_t *step, int64_t index, int64_t item, int64_t count) {
    const int64_t place = step[TABLE] + index;
    if (step[TABLE] < 0 || place >= m->table_count || m->tables[place].item != item) return 0;
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
    /* Every node leads to one behind it or, a leaf, to itself: so every walk ends. */
    for (int64_t i = 0; i < nodes->count; i++) {
        const Node node = ((const Node *)nodes->content)[i];
        const int is_leaf = node.right == i && node.threshold == -INFINITY;
        if (node.feature < 0 || node.feature >= width || node.right >= nodes->count) return 0;
        if (!is_leaf && (node.right <= i || i + 1 >= nodes->count || !(node.threshold == node.threshold))) return 0;
    }
    return are_places(roots, nodes->count);
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
    if (step[B] < -m->constant_count - 1) return "a constant that there is not";
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
    case KERNEL: case NEAREST: {
        if (width != 1 || !is_table(m, step, 1, 8, -1) || !is_table(m, step, 2, 8, 2)) return "wrong points";
        const Array *tables = m->tables + step[TABLE];
        if (tables[1].count > INT64_MAX / inner || !is_table(m, step, 0, 8, inner * tables[1].count))
            return "wrong points";
        const double wanted = *(const double *)tables[2].content;
        return op == KERNEL || (wanted >= 1.0 && (wanted <= MOST_NEIGHBOURS || tables[1].count <= MOST_NEIGHBOURS))
                   ? NULL : "wrong points";
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

/* ---- Machine ---- */

static void machine_dealloc(Machine *self) {
    for (int64_t i = 0; self->tables && i < self->table_count; i++) PyMem_RawFree(self->tables[i].content);
    PyMem_RawFree(self->tables);
    PyMem_RawFree(self->code);
    PyMem_RawFree(self->output_slots);
    PyMem_RawFree(self->constants);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* A copy of what an object holds, as items of so many bytes each (those of the object where 0 is said). */
static int copied(PyObject *object, int64_t item, Array *to) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return 0;
    const int64_t size = item ? item : view.itemsize;
    if (size < 1 || view.len % size) {
        PyErr_SetString(PyExc_ValueError, "an array of other items was wanted");
        PyBuffer_Release(&view);
        return 0;
    }
    to->content = PyMem_RawCalloc(view.len / size + 1, size);
    to->count = view.len / size;
    to->item = size;
    if (to->content) memcpy(to->content, view.buf, view.len);
    PyBuffer_Release(&view);
    if (!to->content) PyErr_NoMemory();
    return to->content != NULL;
}

static PyObject *machine_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *code, *constants, *tables, *outputs;
    long long inputs, slots;
    if (!PyArg_ParseTuple(args, "LLOOO!O", &inputs, &slots, &code, &constants, &PyTuple_Type, &tables, &outputs))
        return NULL;
    Machine *self = (Machine *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Array found;
    if (!copied(code, sizeof(int64_t), &found)) goto failed;
    self->code = found.content;
    self->steps = found.count / FIELDS;
    if (!copied(constants, sizeof(double), &found)) goto failed;
    self->constants = found.content;
    self->constant_count = found.count;
    if (!copied(outputs, sizeof(int64_t), &found)) goto failed;
    self->output_slots = found.content;
    self->outputs = found.count;
    self->inputs = inputs;
    self->slots = slots;
    const Py_ssize_t count = PyTuple_GET_SIZE(tables);
    self->tables = PyMem_RawCalloc(count + 4, sizeof(Array));
    if (!self->tables) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!copied(PyTuple_GET_ITEM(tables, i), 0, &self->tables[i])) goto failed;
        self->table_count = i + 1;
    }
    const char *wrong = wrong_machine(self);
    if (wrong) {
        PyErr_Format(PyExc_ValueError, "this is no program: it has %s", wrong);
        goto failed;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static double *new_memory(const Machine *m, int rows) {
    /* Aligned, and without anything that was there before. */
    const size_t bytes = (size_t)m->slots * rows * sizeof(double) + 64;
    char *found = PyMem_RawCalloc(bytes + sizeof(void *), 1);
    if (!found) return NULL;
    uintptr_t place = ((uintptr_t)found + sizeof(void *) + 63) & ~(uintptr_t)63;
    ((void **)place)[-1] = found;
    return (double *)place;
}

static void free_memory(double *memory) { PyMem_RawFree(((void **)memory)[-1]); }

/* Columns of numbers in, columns of numbers out, each `rows` long. */
static int run_columns(const Machine *m, const double *given, double *out, int64_t rows) {
    const int64_t blocks = rows / BLOCK + (rows % BLOCK > 4), alone = rows % BLOCK > 4 ? rows : blocks * BLOCK;
    double *memory = new_memory(m, blocks ? BLOCK : 1);
    if (!memory) return 0;
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t start = block * BLOCK, here = rows - start < BLOCK ? rows - start : BLOCK;
        for (int64_t i = 0; i < m->inputs; i++) {
            double *to = memory + i * BLOCK;
            memcpy(to, given + i * rows + start, here * sizeof(double));
            for (int64_t r = here; r < BLOCK; r++) to[r] = to[here - 1];
        }
        run_many(m, memory);
        for (int64_t i = 0; i < m->outputs; i++)
            memcpy(out + i * rows + start, memory + m->output_slots[i] * BLOCK, here * sizeof(double));
    }
    for (int64_t row = alone; row < rows; row++) {
        for (int64_t i = 0; i < m->inputs; i++) memory[i] = given[i * rows + row];
        run_one(m, memory);
        for (int64_t i = 0; i < m->outputs; i++) out[i * rows + row] = memory[m->output_slots[i]];
    }
    free_memory(memory);
    return 1;
}

static PyObject *machine_run(Machine *self, PyObject *args) {
    PyObject *given, *out;
    Py_buffer in_view, out_view;
    if (!PyArg_ParseTuple(args, "OO", &given, &out)) return NULL;
    if (PyObject_GetBuffer(given, &in_view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return NULL;
    if (PyObject_GetBuffer(out, &out_view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT) < 0) {
        PyBuffer_Release(&in_view);
        return NULL;
    }
    const int64_t rows = self->outputs ? out_view.len / (int64_t)sizeof(double) / self->outputs : 0;
    int good = in_view.itemsize == sizeof(double) && out_view.itemsize == sizeof(double) &&
               in_view.len == rows * self->inputs * (int64_t)sizeof(double) &&
               out_view.len == rows * self->outputs * (int64_t)sizeof(double);
    if (!good)
        PyErr_SetString(PyExc_ValueError, "the columns do not fit the program");
    else {
        if (rows < 8)
            good = run_columns(self, in_view.buf, out_view.buf, rows);
        else {
            Py_BEGIN_ALLOW_THREADS
            good = run_columns(self, in_view.buf, out_view.buf, rows);
            Py_END_ALLOW_THREADS
        }
        if (!good) PyErr_NoMemory();
    }
    PyBuffer_Release(&in_view);
    PyBuffer_Release(&out_view);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef machine_methods[] = {
    {"run", (PyCFunction)machine_run, METH_VARARGS, "run(columns, results): computes columns, one row for each output."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject MachineType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "medn.program._engine.Machine",
    .tp_doc = "Machine(inputs, slots, code, constants, tables, outputs): a checked program.",
    .tp_basicsize = sizeof(Machine),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = machine_new,
    .tp_dealloc = (destructor)machine_dealloc,
    .tp_methods = machine_methods,
};

/* ---- Query ---- */

typedef struct {
    uint64_t low, high; /* a bit for each name that is said */
    Machine *machine;   /* NULL for names that cannot go together */
    int is_known;
} Way;

typedef struct {
    PyObject_HEAD
    PyObject *names, *strings, *make_way, *prediction, *level, *further, *nothing;
    char types[MOST_NAMES];
    double defaults[MOST_NAMES]; /* of names that are left unsaid */
    Py_ssize_t count;
    Machine *answer;
    Way *ways;
    Py_ssize_t way_count;
} Query;

static int query_traverse(Query *self, visitproc visit, void *arg) {
    Py_VISIT(self->make_way);
    Py_VISIT(self->prediction);
    return 0;
}

static int query_clear(Query *self) {
    Py_CLEAR(self->make_way);
    Py_CLEAR(self->prediction);
    return 0;
}

static void query_dealloc(Query *self) {
    PyObject_GC_UnTrack(self);
    query_clear(self);
    Py_XDECREF(self->names);
    Py_XDECREF(self->strings);
    Py_XDECREF(self->level);
    Py_XDECREF(self->further);
    Py_XDECREF(self->nothing);
    Py_XDECREF(self->answer);
    for (Py_ssize_t i = 0; self->ways && i < 2 * MOST_WAYS; i++) Py_XDECREF(self->ways[i].machine);
    PyMem_Free(self->ways);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *query_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *names, *strings, *make_way, *answer, *prediction, *level, *further, *nothing;
    const char *types, *defaults;
    Py_ssize_t count, default_bytes;
    if (!PyArg_ParseTuple(
            args, "O!y#y#O!OO!O!OO!O", &PyDict_Type, &names, &types, &count, &defaults, &default_bytes, &PyTuple_Type,
            &strings, &make_way, &MachineType, &answer, &PyType_Type, &prediction, &level, &PyTuple_Type, &further,
            &nothing))
        return NULL;
    const Machine *machine = (Machine *)answer;
    if (count > MOST_NAMES || default_bytes != count * (Py_ssize_t)sizeof(double) || PyTuple_GET_SIZE(strings) != count || !PyType_IsSubtype((PyTypeObject *)prediction, &PyTuple_Type) ||
        machine->outputs != 4 + PyTuple_GET_SIZE(further)) {
        PyErr_SetString(PyExc_ValueError, "the parts of a query do not fit one another");
        return NULL;
    }
    Py_ssize_t place = 0;
    PyObject *name, *index;
    while (PyDict_Next(names, &place, &name, &index)) {
        const long which = PyLong_AsLong(index);
        if (which < 0 || which >= count || ((types[which] == 's' || types[which] == 't') && !PyDict_Check(PyTuple_GET_ITEM(strings, which)))) {
            PyErr_SetString(PyExc_ValueError, "the parts of a query do not fit one another");
            return NULL;
        }
    }
    Query *self = (Query *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->ways = PyMem_Calloc(2 * MOST_WAYS, sizeof(Way));
    if (!self->ways) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    memcpy(self->types, types, count);
    memcpy(self->defaults, defaults, default_bytes);
    self->count = count;
    self->names = PyDict_Copy(names);
    self->strings = Py_NewRef(strings);
    self->make_way = Py_NewRef(make_way);
    self->answer = (Machine *)Py_NewRef(answer);
    self->prediction = Py_NewRef(prediction);
    self->level = Py_NewRef(level);
    self->further = Py_NewRef(further);
    self->nothing = Py_NewRef(nothing);
    return (PyObject *)self;
}

/* A value as a number: 1, or 0 where it is left unsaid, or -1 where Python has to look at it. No error is set. */
static int read_value(const Query *self, long which, PyObject *value, double *found) {
    const char type = self->types[which];
    if (value == Py_None) return 0;
    if (type == 's' || type == 't') {
        if (!PyUnicode_CheckExact(value)) return -1;
        if (PyUnicode_GET_LENGTH(value) == 0) return 0;
        PyObject *code = PyDict_GetItemWithError(PyTuple_GET_ITEM(self->strings, which), value);
        if (!code) {
            PyErr_Clear();
            *found = -1.0; /* allowed where any string is */
            return type == 't' ? 1 : -1;
        }
        *found = PyLong_AsDouble(code);
        return 1;
    }
    if (PyBool_Check(value)) {
        *found = value == Py_True;
        return type == 'b' ? 1 : -1;
    }
    if (PyFloat_Check(value)) {
        *found = PyFloat_AS_DOUBLE(value);
        return 1;
    }
    if (PyLong_Check(value))
        *found = PyLong_AsDouble(value);
    else if (PyIndex_Check(value)) {
        PyObject *whole = PyNumber_Index(value);
        *found = whole ? PyLong_AsDouble(whole) : -1.0;
        Py_XDECREF(whole);
    } else
        return -1;
    if (*found == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return -1;
    }
    return 1;
}

/* The numbers of a query by name; 0 where Python has to look at it. */
static int read_query(const Query *self, PyObject *parameters, PyObject *skipped, double *values, int64_t apart, Way *said) {
    Py_ssize_t place = 0;
    PyObject *name, *value;
    said->low = said->high = 0;
    while (PyDict_Next(parameters, &place, &name, &value)) {
        if (name == skipped) continue;
        PyObject *index = PyUnicode_Check(name) ? PyDict_GetItemWithError(self->names, name) : NULL;
        if (!index) {
            PyErr_Clear();
            if (skipped && PyUnicode_Check(name) && PyUnicode_Compare(name, skipped) == 0) continue;
            return 0;
        }
        const long which = PyLong_AsLong(index);
        double number = 0.0;
        Py_INCREF(value);
        const int found = read_value(self, which, value, &number);
        Py_DECREF(value);
        if (found < 0) return 0;
        if (!found) continue;
        values[which * apart] = number;
        if (which < 64) said->low |= (uint64_t)1 << which;
        else said->high |= (uint64_t)1 << (which - 64);
    }
    return 1;
}

/* Where the way for these names stands, or would stand, in a table of twice as many places as it may hold. */
static Way *way_place(const Query *self, const Way *said) {
    uint64_t hash = (said->low * 0x9e3779b97f4a7c15ULL) ^ (said->high * 0xc2b2ae3d27d4eb4fULL);
    for (uint64_t place = hash >> 32;; place++) {
        Way *way = self->ways + place % (2 * MOST_WAYS);
        if (!way->is_known || (way->low == said->low && way->high == said->high)) return way;
    }
}

/* The program for the names that are said, made by Python where it is not known yet; -1 with an error set. */
static int find_way(Query *self, Way *said) {
    Way *way = way_place(self, said);
    if (!way->is_known) {
        PyObject *made = PyObject_CallFunction(
            self->make_way, "KK", (unsigned long long)said->low, (unsigned long long)said->high);
        if (!made) return -1;
        Machine *machine = PyObject_TypeCheck(made, &MachineType) ? (Machine *)made : NULL;
        if (machine && (machine->inputs != self->count || machine->outputs != 2 + self->answer->inputs)) {
            PyErr_SetString(PyExc_ValueError, "the parts of a query do not fit one another");
            Py_DECREF(made);
            return -1;
        }
        way = way_place(self, said); /* another thread may have been here meanwhile */
        if (way->is_known || self->way_count >= MOST_WAYS) {
            /* Python holds the machines that it made, so this one stays. */
            said->machine = machine;
            Py_DECREF(made);
            return 0;
        }
        *way = (Way){said->low, said->high, machine, 1};
        self->way_count++;
        if (!machine) Py_DECREF(made);
    }
    said->machine = way->machine;
    return 0;
}

static PyObject *told(const Query *self, const double *found, int matches) {
    const Py_ssize_t further = PyTuple_GET_SIZE(self->further);
    PyObject *more = Py_NewRef(self->nothing);
    if (further) {
        Py_SETREF(more, PyDict_New());
        for (Py_ssize_t i = 0; more && i < further; i++) {
            PyObject *number = PyFloat_FromDouble(found[4 + i]);
            if (!number || PyDict_SetItem(more, PyTuple_GET_ITEM(self->further, i), number) < 0) Py_CLEAR(more);
            Py_XDECREF(number);
        }
        if (!more) return NULL;
    }
    PyObject *values = Py_BuildValue(
        "(dddONO)", found[0], found[1], found[2], self->level, PyBool_FromLong(matches && found[3] != 0.0), more);
    Py_DECREF(more);
    if (!values) return NULL;
    PyObject *arguments = PyTuple_Pack(1, values);
    Py_DECREF(values);
    if (!arguments) return NULL;
    PyObject *made = PyTuple_Type.tp_new((PyTypeObject *)self->prediction, arguments, NULL);
    Py_DECREF(arguments);
    return made;
}

static int is_good(const Machine *answer, const double *found) {
    int good = 1;
    for (int64_t i = 0; i < answer->outputs; i++) good &= i == 3 || (found[i] > 0.0 && found[i] <= DBL_MAX);
    return good;
}

static PyObject *query_call(Query *self, PyObject *args, PyObject *keywords) {
    PyObject *parameters;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &parameters)) return NULL;
    double values[MOST_NAMES], stack[ON_STACK], outputs[64];
    Way said;
    memcpy(values, self->defaults, self->count * sizeof(double));
    if (!read_query(self, parameters, NULL, values, 1, &said)) Py_RETURN_NONE;
    if (find_way(self, &said) < 0) return NULL;
    const Machine *first = said.machine, *second = self->answer;
    if (!first || second->outputs > 64) Py_RETURN_NONE;
    const int64_t slots = first->slots > second->slots ? first->slots : second->slots;
    double *memory = 2 * slots <= ON_STACK ? stack : PyMem_RawMalloc(2 * slots * sizeof(double));
    if (!memory) return PyErr_NoMemory();
    double *other = memory + slots;
    memset(memory, 0, 2 * slots * sizeof(double));
    memcpy(memory, values, first->inputs * sizeof(double));
    run_one(first, memory);
    const int good = memory[first->output_slots[0]] != 0.0, matches = memory[first->output_slots[1]] != 0.0;
    if (good) {
        for (int64_t i = 0; i < second->inputs; i++) other[i] = memory[first->output_slots[2 + i]];
        run_one(second, other);
        for (int64_t i = 0; i < second->outputs; i++) outputs[i] = other[second->output_slots[i]];
    }
    if (memory != stack) PyMem_RawFree(memory);
    if (!good || !is_good(second, outputs)) Py_RETURN_NONE;
    return told(self, outputs, matches);
}

static PyObject *query_read(Query *self, PyObject *args) {
    PyObject *rows, *skipped, *values, *masks;
    Py_buffer value_view, mask_view;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyList_Type, &rows, &skipped, &values, &masks)) return NULL;
    if (PyObject_GetBuffer(values, &value_view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return NULL;
    if (PyObject_GetBuffer(masks, &mask_view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&value_view);
        return NULL;
    }
    const int64_t count = PyList_GET_SIZE(rows);
    int good = value_view.len == count * self->count * 8 && mask_view.len == count * 16;
    for (int64_t row = 0; good && row < count && row < PyList_GET_SIZE(rows); row++) {
        PyObject *parameters = Py_NewRef(PyList_GET_ITEM(rows, row));
        double *own = (double *)value_view.buf + row;
        Way said;
        for (Py_ssize_t i = 0; i < self->count; i++) own[i * count] = self->defaults[i];
        good = PyDict_CheckExact(parameters) && read_query(self, parameters, skipped, own, count, &said);
        Py_DECREF(parameters);
        if (!good) break;
        ((uint64_t *)mask_view.buf)[2 * row] = said.low;
        ((uint64_t *)mask_view.buf)[2 * row + 1] = said.high;
    }
    PyBuffer_Release(&value_view);
    PyBuffer_Release(&mask_view);
    return PyBool_FromLong(good);
}

static PyMethodDef query_methods[] = {
    {"read", (PyCFunction)query_read, METH_VARARGS,
     "read(rows, skipped, values, masks): numbers of many queries by name, and which are said; whether all were read."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject QueryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "medn.program._engine.Query",
    .tp_doc = "Query(names, types, defaults, strings, make_way, answer, prediction, level, further, nothing): called with the "
              "parameters of a layer it gives the prediction, or None where Python has to look at them.",
    .tp_basicsize = sizeof(Query),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = query_new,
    .tp_dealloc = (destructor)query_dealloc,
    .tp_traverse = (traverseproc)query_traverse,
    .tp_clear = (inquiry)query_clear,
    .tp_call = (ternaryfunc)query_call,
    .tp_methods = query_methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "medn.program._engine", "A fixed interpreter of flat programs.", -1, NULL,
};

PyMODINIT_FUNC PyInit__engine(void) {
    choose_target();
    if (PyType_Ready(&MachineType) < 0 || PyType_Ready(&QueryType) < 0) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (!made) return NULL;
    if (PyModule_AddObjectRef(made, "Machine", (PyObject *)&MachineType) < 0 ||
        PyModule_AddObjectRef(made, "Query", (PyObject *)&QueryType) < 0 ||
        PyModule_AddIntConstant(made, "VERSION", 1) < 0 || PyModule_AddIntConstant(made, "FIELDS", FIELDS) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
