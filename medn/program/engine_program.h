/* What a program is, and the steps that it is made of, once for every processor and once for newer ones. */
#ifndef MEDN_ENGINE_PROGRAM_H
#define MEDN_ENGINE_PROGRAM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#include "engine_math.h"

#if defined(__GNUC__) && defined(__x86_64__) && !defined(MEDN_ONE_TARGET)
#define HAS_NEWER_TARGET 1
#endif

#if defined(__GNUC__)
typedef float eight __attribute__((vector_size(32), may_alias));
typedef float loose_eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef double four __attribute__((vector_size(32), may_alias));
typedef double loose_four __attribute__((vector_size(32), aligned(8), may_alias));
#endif

/* FEW rows take less time one by one than as a block that is filled up. */
enum { BLOCK = 32, FEW = 12, WALKS = 8, POINTS = 32, SEGMENT = 1024, TILE = 6, ON_STACK = 4096 };
enum { MOST_NEIGHBOURS = 256, MOST_FEATURES = 512, MOST_NAMES = 128, MOST_WAYS = 1024, MOST_KEPT = 8192 };

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
    double *spare; /* the memory of the last block, until somebody takes it */
} Machine;

/* Puts one pointer in the place of another, which no two threads get. */
INLINE double *exchanged(double **place, double *with) {
#if defined(_MSC_VER)
    return (double *)_InterlockedExchangePointer((void *volatile *)place, with);
#else
    return __atomic_exchange_n(place, with, __ATOMIC_ACQ_REL);
#endif
}

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

/* How many slots a value takes. */
static int64_t slots_of(int64_t width, int single) { return single ? (width + 1) / 2 : width; }

/* Whether a value and the result of a step share no memory. */
static int is_apart(const int64_t *step, int64_t place, int64_t width, int single, int out_single) {
    return place < 0 || place >= step[OUT] + slots_of(step[WIDTH], out_single) ||
           step[OUT] >= place + slots_of(width, single);
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

#endif
