/* A Query: from the names and values that somebody says of one layer to its prediction, without Python in between. */
#ifndef MEDN_ENGINE_QUERY_H
#define MEDN_ENGINE_QUERY_H

#include "engine_machine.h"

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
    PyObject **kept; /* predictions of layers that were asked for, each where its numbers lead */
    double *kept_values;
    Way *kept_names;
} Query;

static int query_traverse(Query *self, visitproc visit, void *arg) {
    Py_VISIT(self->make_way);
    Py_VISIT(self->prediction);
    for (Py_ssize_t i = 0; self->kept && i < MOST_KEPT; i++) Py_VISIT(self->kept[i]);
    return 0;
}

static int query_clear(Query *self) {
    Py_CLEAR(self->make_way);
    Py_CLEAR(self->prediction);
    for (Py_ssize_t i = 0; self->kept && i < MOST_KEPT; i++) Py_CLEAR(self->kept[i]);
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
    PyMem_Free(self->kept);
    PyMem_Free(self->kept_values);
    PyMem_Free(self->kept_names);
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

static void say(Way *said, long which) {
    if (which < 64) said->low |= (uint64_t)1 << which;
    else said->high |= (uint64_t)1 << (which - 64);
}

/* The numbers of a query by name; 0 where Python has to look at it. */
static int read_query(const Query *self, PyObject *parameters, PyObject *skipped, double *values, Way *said) {
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
        values[which] = number;
        say(said, which);
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
    if (!read_query(self, parameters, NULL, values, &said)) Py_RETURN_NONE;
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

/* Where the prediction of a layer is kept; -1 where it is not, since its numbers do not say all of it. */
static int64_t kept_place(const Query *self, PyObject *parameters, double *values, Way *said) {
    memcpy(values, self->defaults, self->count * sizeof(double));
    if (!read_query(self, parameters, NULL, values, said)) return -1;
    uint64_t hash = said->low ^ (said->high * 0x9e3779b97f4a7c15ULL);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (self->types[i] == 't' && values[i] < 0.0) return -1; /* one of many strings that nobody knows */
        hash = (hash ^ bits_of(values[i])) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    return (int64_t)(hash % MOST_KEPT);
}

/* recall(parameters): the prediction that was kept of a layer, or None. */
static PyObject *query_recall(Query *self, PyObject *parameters) {
    double values[MOST_NAMES];
    Way said;
    if (!self->kept || !PyDict_CheckExact(parameters)) Py_RETURN_NONE;
    const int64_t place = kept_place(self, parameters, values, &said);
    if (place < 0 || !self->kept[place]) Py_RETURN_NONE;
    const Way *names = &self->kept_names[place];
    if (names->low != said.low || names->high != said.high ||
        memcmp(values, self->kept_values + place * self->count, self->count * sizeof(double)))
        Py_RETURN_NONE;
    return Py_NewRef(self->kept[place]);
}

/* keep(parameters, prediction), in the place of what was kept there before. */
static PyObject *query_keep(Query *self, PyObject *args) {
    PyObject *parameters, *prediction;
    double values[MOST_NAMES];
    Way said;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &parameters, &prediction)) return NULL;
    if (!self->kept) {
        self->kept_values = PyMem_Calloc(MOST_KEPT * (self->count + 1), sizeof(double));
        self->kept_names = PyMem_Calloc(MOST_KEPT, sizeof(Way));
        if (self->kept_values && self->kept_names) self->kept = PyMem_Calloc(MOST_KEPT, sizeof(PyObject *));
        if (!self->kept) return PyErr_NoMemory();
    }
    const int64_t place = kept_place(self, parameters, values, &said);
    if (place >= 0) {
        memcpy(self->kept_values + place * self->count, values, self->count * sizeof(double));
        self->kept_names[place] = said;
        Py_XSETREF(self->kept[place], Py_NewRef(prediction));
    }
    Py_RETURN_NONE;
}

#endif
