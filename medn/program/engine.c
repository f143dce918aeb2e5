/* A fixed interpreter of flat programs (medn/program/program.py), and the quick way from queries to their answers.
 *
 * A program comes as numbers: steps, constants and arrays. All of them are copied and checked when a Machine is made,
 * so that running it reads and writes nothing outside, whatever a file held. A Machine never changes after that:
 * threads share it, each run with memory of its own, and many rows are computed without Python's lock.
 */
#include "engine_tables.h"

static PyMethodDef functions[] = {
    {"predict_rows", predict_rows, METH_VARARGS,
     "predict_rows(queries, rows, key, kind, arrays, names): fills arrays with the answers for rows that are dicts, each "
     "of the kind that its key says, unless all are of one; how many are out of range, the kind that has no query, or None "
     "where Python has to look at them."},
    {"tree_levels", tree_levels, METH_VARARGS,
     "tree_levels(feature, right, roots): how deep trees are, 0 where their nodes are in no order that a walk ends in."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "medn.program._engine", "A fixed interpreter of flat programs.", -1, functions,
};

PyMODINIT_FUNC PyInit__engine(void) {
    choose_target();
    if (PyType_Ready(&MachineType) < 0 || PyType_Ready(&QueryType) < 0) return NULL;
    PyObject *numpy = PyImport_ImportModule("numpy");
    array_type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    Py_XDECREF(numpy);
    PyObject *made = array_type ? PyModule_Create(&module) : NULL;
    if (!made) return NULL;
    if (PyModule_AddObjectRef(made, "Machine", (PyObject *)&MachineType) < 0 ||
        PyModule_AddObjectRef(made, "Query", (PyObject *)&QueryType) < 0 ||
        PyModule_AddIntConstant(made, "VERSION", 4) < 0 || PyModule_AddIntConstant(made, "FIELDS", FIELDS) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
