/* A Machine: a program that was copied and checked, ready to be run by any thread. */
#ifndef MEDN_ENGINE_MACHINE_H
#define MEDN_ENGINE_MACHINE_H

#include "engine_checks.h"

static double *new_memory(const Machine *m) {
    /* Aligned, and without anything that was there before. */
    const size_t bytes = (size_t)m->slots * BLOCK * sizeof(double) + 64;
    char *found = PyMem_RawCalloc(bytes + sizeof(void *), 1);
    if (!found) return NULL;
    uintptr_t place = ((uintptr_t)found + sizeof(void *) + 63) & ~(uintptr_t)63;
    ((void **)place)[-1] = found;
    return (double *)place;
}

static void free_memory(double *memory) {
    if (memory) PyMem_RawFree(((void **)memory)[-1]);
}

/* The memory of a block, or that of the run before where no other thread has it: fresh pages take as long
 * as the steps. */
static double *block_memory(Machine *m) {
    double *spare = exchanged(&m->spare, NULL);
    return spare ? spare : new_memory(m);
}

static void give_back(Machine *m, double *memory) { free_memory(exchanged(&m->spare, memory)); }

static void machine_dealloc(Machine *self) {
    free_memory(self->spare);
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

/* Columns of numbers in, columns of numbers out, each `rows` long. */
static int run_columns(Machine *m, const double *given, double *out, int64_t rows) {
    const int64_t blocks = rows / BLOCK + (rows % BLOCK > FEW), alone = rows % BLOCK > FEW ? rows : blocks * BLOCK;
    double *memory = block_memory(m);
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
    give_back(m, memory);
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

#endif
