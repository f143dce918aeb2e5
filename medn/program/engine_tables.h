/* Many layers at once: as columns of one kind, or as a list of dicts of any kinds. */
#ifndef MEDN_ENGINE_TABLES_H
#define MEDN_ENGINE_TABLES_H

#include "engine_query.h"

enum { MOST_FURTHER = 32, MOST_GROUPS = 1024, LATENCY = 0, LOW, HIGH, LEVEL, IN_RANGE, FIRST_FURTHER };

static PyObject *array_type; /* numpy.ndarray */

/* ---- Where answers go ---- */

typedef struct {
    Py_buffer views[FIRST_FURTHER + MOST_FURTHER];
    int count;
    int64_t rows, outside; /* how many there are, and how many of those answered lie out of range */
} Results;

static void results_release(Results *results) {
    while (results->count > 0) PyBuffer_Release(&results->views[--results->count]);
}

/* Arrays of latency, low, high, level, whether it is in range, and further quantities, which are no numbers at first. */
static int results_hold(PyObject *arrays, Results *results) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    results->count = 0;
    results->outside = 0;
    if (count < FIRST_FURTHER || count > FIRST_FURTHER + MOST_FURTHER) goto wrong;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_buffer *view = &results->views[i];
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(arrays, i), view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
            results_release(results);
            return 0;
        }
        results->count = (int)i + 1;
        const Py_ssize_t item = i == IN_RANGE ? 1 : (Py_ssize_t)sizeof(double);
        if (!i) results->rows = view->len / item;
        if (view->itemsize != item || view->len != results->rows * item) goto wrong;
        for (int64_t row = 0; i >= FIRST_FURTHER && row < results->rows; row++) ((double *)view->buf)[row] = NAN;
    }
    return 1;
wrong:
    results_release(results);
    PyErr_SetString(PyExc_ValueError, "the arrays for answers do not fit one another");
    return 0;
}

/* Where the further quantities of a kind go, by their names. */
static int results_places(const Query *self, PyObject *names, const Results *results, int *places) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->further); i++) {
        PyObject *index = PyDict_GetItemWithError(names, PyTuple_GET_ITEM(self->further, i));
        const long place = index ? PyLong_AsLong(index) : -1;
        if (i >= MOST_FURTHER || place < 0 || place >= results->count - FIRST_FURTHER) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the arrays for answers do not fit one another");
            return 0;
        }
        places[i] = FIRST_FURTHER + (int)place;
    }
    return 1;
}

/* ---- A block of rows, from the numbers of queries to answers ---- */

typedef struct {
    Machine *first, *second;
    double *memory, *other;
    double level;
    const int *places;
    int blocked; /* whether rows go through in blocks, or one by one */
} Runner;

static int runner_start(Runner *runner, const Query *self, Machine *first, const int *places, int64_t rows) {
    runner->first = first;
    runner->second = self->answer;
    runner->level = PyFloat_Check(self->level) ? PyFloat_AS_DOUBLE(self->level) : NAN;
    runner->places = places;
    runner->blocked = rows > FEW;
    runner->memory = block_memory(first);
    runner->other = runner->memory ? block_memory(self->answer) : NULL;
    if (runner->memory && !runner->other) free_memory(runner->memory);
    return runner->other != NULL;
}

static void runner_end(Runner *runner) {
    give_back(runner->first, runner->memory);
    give_back(runner->second, runner->other);
}

/* The rows in memory, of which there are `width` side by side and `here` real ones; whether all are good. */
static int run_block(Runner *runner, int width, int here, const int64_t *rows, Results *results) {
    const Machine *first = runner->first, *second = runner->second;
    double *memory = runner->memory, *other = runner->other;
    (width == 1 ? run_one : run_many)(first, memory);
    for (int r = 0; r < here; r++)
        if (memory[first->output_slots[0] * width + r] == 0.0) return 0;
    for (int64_t i = 0; i < second->inputs; i++)
        memcpy(other + i * width, memory + first->output_slots[2 + i] * width, width * sizeof(double));
    (width == 1 ? run_one : run_many)(second, other);
    const double *matches = memory + first->output_slots[1] * width;
    for (int64_t i = 0; i < second->outputs; i++) {
        const double *found = other + second->output_slots[i] * width;
        if (i == 3) {
            char *to = results->views[IN_RANGE].buf;
            for (int r = 0; r < here; r++) {
                to[rows[r]] = found[r] != 0.0 && matches[r] != 0.0;
                results->outside += !to[rows[r]];
            }
            continue;
        }
        double *to = results->views[i < 3 ? i : runner->places[i - 4]].buf;
        for (int r = 0; r < here; r++) {
            if (!(found[r] > 0.0 && found[r] <= DBL_MAX)) return 0;
            to[rows[r]] = found[r];
        }
    }
    double *level = results->views[LEVEL].buf;
    for (int r = 0; r < here; r++) level[rows[r]] = runner->level;
    return 1;
}

/* ---- Columns ---- */

typedef struct {
    Py_buffer view;
    char code;      /* as NumPy calls a type in a letter; 0 where the numbers are made, or there is but one */
    double *made;
    double number;
    long which;
} Column;

typedef struct {
    Column columns[MOST_NAMES];
    int count;
    int64_t rows; /* -1 as long as nobody knows */
} Table;

static void table_release(Table *table) {
    while (table->count > 0) {
        Column *column = &table->columns[--table->count];
        PyMem_RawFree(column->made);
        if (column->view.obj) PyBuffer_Release(&column->view);
    }
}

static int is_listed(PyObject *values) { return PyList_CheckExact(values) || PyTuple_CheckExact(values); }

/* How many rows a value has: -1 for a single one, 0 where Python has to look at it. */
static int64_t rows_of(PyObject *values) {
    if (is_listed(values)) return PySequence_Fast_GET_SIZE(values);
    if ((PyObject *)Py_TYPE(values) != array_type) return -1;
    Py_buffer view;
    if (PyObject_GetBuffer(values, &view, PyBUF_STRIDES) < 0) {
        PyErr_Clear();
        return 0;
    }
    const int64_t found = view.ndim == 1 ? view.shape[0] : 0;
    PyBuffer_Release(&view);
    return found;
}

/* One item more: 1 where it is said, 0 where it is not, -1 where Python has to look at it. */
static int read_item(const Query *self, long which, PyObject *value, int gaps, double *found) {
    const int said = read_value(self, which, value, found);
    return said > 0 && gaps && PyFloat_Check(value) && *found != *found ? 0 : said;
}

/* Items as numbers; 0 where nothing is said, -1 where Python has to look at them: some are said and others not. */
static int read_items(const Query *self, Column *column, PyObject *list, int64_t count, int gaps) {
    int64_t said = 0;
    column->made = PyMem_RawMalloc((count + 1) * sizeof(double));
    if (!column->made) return -1;
    for (int64_t i = 0; i < count; i++) {
        PyObject *item;
        if (!list) /* an array of objects */
            item = *(PyObject **)((char *)column->view.buf + i * column->view.strides[0]);
        else if (i < PySequence_Fast_GET_SIZE(list)) /* which an item that runs Python may have changed */
            item = PySequence_Fast_GET_ITEM(list, i);
        else
            return -1;
        item = Py_NewRef(item ? item : Py_None);
        const int found = read_item(self, column->which, item, gaps, &column->made[i]);
        Py_DECREF(item);
        if (found < 0) return -1;
        said += found;
    }
    return said == count ? 1 : said ? -1 : 0;
}

/* Strings of a fixed width; few are different, and those are looked up once. */
static int read_strings(const Query *self, Column *column, int64_t count) {
    enum { KNOWN = 16 };
    const char *known[KNOWN];
    double codes[KNOWN];
    int held = 0;
    const Py_buffer *view = &column->view;
    const Py_ssize_t length = view->itemsize / 4;
    column->made = PyMem_RawMalloc((count + 1) * sizeof(double));
    if (!column->made) return -1;
    for (int64_t i = 0; i < count; i++) {
        const char *item = (const char *)view->buf + i * view->strides[0];
        int place = 0;
        while (place < held && memcmp(known[place], item, view->itemsize)) place++;
        if (place == held) {
            Py_ssize_t end = length;
            while (end > 0 && !((const Py_UCS4 *)item)[end - 1]) end--;
            PyObject *text = PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, item, end);
            if (!text) {
                PyErr_Clear();
                return -1;
            }
            double code = 0.0;
            const int found = read_value(self, column->which, text, &code);
            Py_DECREF(text);
            if (found < 1) return -1; /* nothing said: Python knows what stands for it */
            if (held < KNOWN) held++;
            else place = KNOWN - 1;
            known[place] = item;
            codes[place] = code;
        }
        column->made[i] = codes[place];
    }
    return 1;
}

/* An array: 1, 0 where nothing is said, -1 where Python has to look at it. */
static int read_array(const Query *self, Column *column, PyObject *array, int64_t count, int gaps) {
    const char type = self->types[column->which];
    const int is_text = type == 's' || type == 't';
    Py_buffer *view = &column->view;
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        view->obj = NULL;
        return -1;
    }
    if (view->ndim != 1 || view->shape[0] != count || !view->format) return -1;
    const size_t length = strlen(view->format);
    const char code = length ? view->format[length - 1] : 0;
    if (code == 'w' && view->format[0] != '>' && view->format[0] != '<' && is_text && view->itemsize >= 4 &&
        (uintptr_t)view->buf % 4 == 0 && view->strides[0] % 4 == 0)
        return read_strings(self, column, count);
    if (length != 1 || (uintptr_t)view->buf % view->itemsize || view->strides[0] % view->itemsize) return -1;
    if (code == 'O') return read_items(self, column, NULL, count, gaps);
    if (is_text || !strchr("bhilqBHILQfd?", code) || (code == '?' && type != 'b')) return -1;
    column->code = code;
    if (!gaps || (code != 'f' && code != 'd')) return 1;
    int64_t missing = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *item = (const char *)view->buf + i * view->strides[0];
        const double value = code == 'd' ? *(const double *)item : *(const float *)item;
        missing += value != value;
    }
    return !missing ? 1 : missing == count ? 0 : -1;
}

#define READ(TYPE)                                                                                                    \
    for (int r = 0; r < here; r++) to[r] = (double)*(const TYPE *)(from + r * apart);                                 \
    break;

/* Some numbers of a column. */
static void read_numbers(const Column *column, int64_t start, int here, double *to) {
    if (!column->code) {
        for (int r = 0; r < here; r++) to[r] = column->made ? column->made[start + r] : column->number;
        return;
    }
    const Py_ssize_t apart = column->view.strides[0];
    const char *from = (const char *)column->view.buf + start * apart;
    switch (column->code) {
    case 'b': READ(signed char)
    case 'h': READ(short)
    case 'i': READ(int)
    case 'l': READ(long)
    case 'q': READ(long long)
    case 'B': case '?': READ(unsigned char)
    case 'H': READ(unsigned short)
    case 'I': READ(unsigned int)
    case 'L': READ(unsigned long)
    case 'Q': READ(unsigned long long)
    case 'f': READ(float)
    default: READ(double)
    }
}

/* All columns of a table, and which names are said; 0 where Python has to look at it. */
static int read_table(const Query *self, PyObject *columns, PyObject *skipped, int gaps, Table *table, Way *said) {
    Py_ssize_t place = 0;
    PyObject *name, *values;
    said->low = said->high = 0;
    while (PyDict_Next(columns, &place, &name, &values)) {
        if (!PyUnicode_Check(name)) return 0;
        PyObject *index = PyDict_GetItemWithError(self->names, name);
        if (!index) {
            PyErr_Clear();
            if (PyUnicode_Check(skipped) && PyUnicode_Compare(name, skipped) == 0) continue;
            return 0;
        }
        if (table->count == MOST_NAMES) return 0;
        Column *column = &table->columns[table->count++];
        memset(column, 0, sizeof *column);
        column->which = PyLong_AsLong(index);
        Py_INCREF(values);
        const int64_t rows = rows_of(values);
        int found = rows > 0 && rows != table->rows ? -1 : 1;
        if (found > 0 && rows < 0)
            found = read_item(self, column->which, values, gaps, &column->number);
        else if (found > 0 && rows > 0)
            found = is_listed(values) ? read_items(self, column, values, rows, gaps)
                                      : read_array(self, column, values, rows, gaps);
        Py_DECREF(values);
        if (found < 0 || !rows) return 0;
        if (found) say(said, column->which);
        else column->which = -1; /* nothing is read of it */
    }
    return 1;
}

static PyObject *query_count(Query *self, PyObject *args) {
    PyObject *columns, *name, *values;
    Py_ssize_t place = 0;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &columns)) return NULL;
    int64_t rows = -1;
    while (PyDict_Next(columns, &place, &name, &values)) {
        const int64_t own = rows_of(values);
        if (!own || (own > 0 && rows > 0 && own != rows)) return PyLong_FromLong(0);
        if (own > 0) rows = own;
    }
    return PyLong_FromLongLong(PyDict_GET_SIZE(columns) ? (rows < 0 ? 1 : rows) : 0);
}

static int run_table(const Query *self, const Table *table, Runner *runner, Results *results) {
    const int width = runner->blocked ? BLOCK : 1;
    int64_t places[BLOCK];
    for (int64_t start = 0; start < results->rows; start += width) {
        const int here = (int)(results->rows - start < width ? results->rows - start : width);
        for (Py_ssize_t i = 0; i < self->count; i++)
            for (int r = 0; r < width; r++) runner->memory[i * width + r] = self->defaults[i];
        for (int i = 0; i < table->count; i++) {
            const Column *column = &table->columns[i];
            if (column->which < 0) continue;
            double *to = runner->memory + column->which * width;
            read_numbers(column, start, here, to);
            for (int r = here; r < width; r++) to[r] = to[here - 1];
        }
        for (int r = 0; r < here; r++) places[r] = start + r;
        if (!run_block(runner, width, here, places, results)) return 0;
    }
    return 1;
}

static PyObject *query_predict(Query *self, PyObject *args) {
    PyObject *columns, *skipped, *arrays, *names;
    int gaps, places[MOST_FURTHER], good = 0;
    if (!PyArg_ParseTuple(
            args, "O!OpO!O!", &PyDict_Type, &columns, &skipped, &gaps, &PyTuple_Type, &arrays, &PyDict_Type, &names))
        return NULL;
    Results results;
    Table table = {.count = 0};
    Runner runner;
    Way said;
    if (!results_hold(arrays, &results)) return NULL;
    if (!results_places(self, names, &results, places)) goto failed;
    table.rows = results.rows;
    if (results.rows > 0 && read_table(self, columns, skipped, gaps, &table, &said)) {
        if (find_way(self, &said) < 0) goto failed;
        if (said.machine) {
            if (!runner_start(&runner, self, said.machine, places, results.rows)) {
                PyErr_NoMemory();
                goto failed;
            }
            Py_INCREF(said.machine);
            if (results.rows < 8)
                good = run_table(self, &table, &runner, &results);
            else {
                Py_BEGIN_ALLOW_THREADS
                good = run_table(self, &table, &runner, &results);
                Py_END_ALLOW_THREADS
            }
            runner_end(&runner);
            Py_DECREF(said.machine);
        }
    }
    table_release(&table);
    results_release(&results);
    if (!good) Py_RETURN_NONE;
    return PyLong_FromLongLong(results.outside);
failed:
    table_release(&table);
    results_release(&results);
    return NULL;
}

static PyMethodDef query_methods[] = {
    {"count", (PyCFunction)query_count, METH_VARARGS,
     "count(columns): how many rows a dict of columns has, 0 where Python has to look at it."},
    {"predict", (PyCFunction)query_predict, METH_VARARGS,
     "predict(columns, skipped, gaps, arrays, names): fills arrays with the answers for columns; how many "
     "rows are out of range, or None where Python has to look at them."},
    {"recall", (PyCFunction)query_recall, METH_O, "recall(parameters): the prediction that was kept of a layer, or None."},
    {"keep", (PyCFunction)query_keep, METH_VARARGS, "keep(parameters, prediction): to be recalled."},
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

/* ---- Rows that are dicts ---- */

typedef struct {
    Query *query;
    Machine *machine;
    int64_t first, last; /* rows that go the same way, each followed by the next */
    int places[MOST_FURTHER];
} Group;

typedef struct {
    Group *groups;
    int count;
    int64_t wide; /* numbers kept of each row */
    double *values;
    int64_t *next;
} Rows;

static void rows_release(Rows *rows) {
    for (int i = 0; i < rows->count; i++) {
        Py_DECREF(rows->groups[i].query);
        Py_DECREF(rows->groups[i].machine);
    }
    PyMem_RawFree(rows->groups);
    PyMem_RawFree(rows->values);
    PyMem_RawFree(rows->next);
}

static int rows_start(Rows *rows, PyObject *queries, int64_t count) {
    Py_ssize_t place = 0;
    PyObject *kind, *query;
    *rows = (Rows){.wide = 1};
    while (PyDict_Next(queries, &place, &kind, &query)) {
        if (!PyObject_TypeCheck(query, &QueryType)) {
            PyErr_SetString(PyExc_TypeError, "queries by kind were wanted");
            return 0;
        }
        if (((Query *)query)->count > rows->wide) rows->wide = ((Query *)query)->count;
    }
    rows->groups = PyMem_RawCalloc(MOST_GROUPS, sizeof(Group));
    rows->values = PyMem_RawMalloc((count * rows->wide + 1) * sizeof(double));
    rows->next = PyMem_RawMalloc((count + 1) * sizeof(int64_t));
    if (rows->groups && rows->values && rows->next) return 1;
    PyErr_NoMemory();
    return 0;
}

/* The group of rows that a row goes with; NULL where there are too many. */
static Group *rows_group(Rows *rows, Query *query, Machine *machine) {
    for (int i = 0; i < rows->count; i++)
        if (rows->groups[i].query == query && rows->groups[i].machine == machine) return &rows->groups[i];
    if (rows->count == MOST_GROUPS) return NULL;
    Group *group = &rows->groups[rows->count++];
    group->query = (Query *)Py_NewRef(query);
    group->machine = (Machine *)Py_NewRef((PyObject *)machine);
    group->first = group->last = -1;
    return group;
}

/* Reads one row: 1, 0 where Python has to look at it, -1 with an error set. */
static int rows_read(Rows *rows, Query *query, PyObject *parameters, PyObject *skipped, int64_t row) {
    double *values = rows->values + row * rows->wide;
    Way said;
    if (query->count > rows->wide) return 0;
    memcpy(values, query->defaults, query->count * sizeof(double));
    if (!read_query(query, parameters, skipped, values, &said)) return 0;
    if (find_way(query, &said) < 0) return -1;
    Group *group = said.machine ? rows_group(rows, query, said.machine) : NULL;
    if (!group) return 0;
    rows->next[row] = -1;
    if (group->last < 0) group->first = row;
    else rows->next[group->last] = row;
    group->last = row;
    return 1;
}

static int rows_run(const Rows *rows, const Group *group, Runner *runner, Results *results) {
    const int width = runner->blocked ? BLOCK : 1;
    int64_t row = group->first, places[BLOCK];
    while (row >= 0) {
        int here = 0;
        for (; here < width && row >= 0; row = rows->next[row]) places[here++] = row;
        for (Py_ssize_t i = 0; i < group->query->count; i++)
            for (int r = 0; r < width; r++)
                runner->memory[i * width + r] = rows->values[places[r < here ? r : here - 1] * rows->wide + i];
        if (!run_block(runner, width, here, places, results)) return 0;
    }
    return 1;
}

static int rows_answer(const Rows *rows, Results *results) {
    for (int i = 0; i < rows->count; i++) {
        const Group *group = &rows->groups[i];
        Runner runner;
        int64_t count = 0;
        for (int64_t row = group->first; row >= 0 && count <= FEW; row = rows->next[row]) count++;
        if (!runner_start(&runner, group->query, group->machine, group->places, count)) return -1;
        const int good = rows_run(rows, group, &runner, results);
        runner_end(&runner);
        if (!good) return 0;
    }
    return 1;
}

/* Each row is a dict that says its kind by a key, unless all are of one. */
static PyObject *predict_rows(PyObject *module, PyObject *args) {
    PyObject *queries, *table, *key, *kind, *arrays, *names, *unknown = NULL;
    if (!PyArg_ParseTuple(
            args, "O!O!OOO!O!", &PyDict_Type, &queries, &PyList_Type, &table, &key, &kind, &PyTuple_Type, &arrays,
            &PyDict_Type, &names))
        return NULL;
    Results results;
    Rows rows;
    int good = 1;
    if (!results_hold(arrays, &results)) return NULL;
    if (!rows_start(&rows, queries, results.rows)) good = -1;
    PyObject *skipped = kind == Py_None ? key : NULL;
    for (int64_t row = 0; good > 0 && row < results.rows; row++) {
        if (row >= PyList_GET_SIZE(table)) {
            good = 0;
            break;
        }
        PyObject *parameters = Py_NewRef(PyList_GET_ITEM(table, row)), *own = kind, *query = NULL;
        good = PyDict_CheckExact(parameters);
        if (good && kind == Py_None) own = PyDict_GetItemWithError(parameters, key);
        good = good && own && PyUnicode_CheckExact(own);
        if (good) {
            query = PyDict_GetItemWithError(queries, own);
            if (!query) unknown = Py_NewRef(own);
            good = query ? rows_read(&rows, (Query *)query, parameters, skipped, row) : 0;
        }
        Py_DECREF(parameters);
    }
    for (int i = 0; good > 0 && i < rows.count; i++)
        if (!results_places(rows.groups[i].query, names, &results, rows.groups[i].places)) good = -1;
    if (good > 0) {
        Py_BEGIN_ALLOW_THREADS
        good = rows_answer(&rows, &results);
        Py_END_ALLOW_THREADS
        if (good < 0) PyErr_NoMemory();
    }
    rows_release(&rows);
    results_release(&results);
    if (good < 0 || (PyErr_Occurred() && !unknown)) {
        Py_XDECREF(unknown);
        return NULL;
    }
    if (unknown) return unknown;
    if (!good) Py_RETURN_NONE;
    return PyLong_FromLongLong(results.outside);
}

#endif
