/* The steps of a program for ROWS rows at a time; included once for a single row and once for a block of them.
 *
 * A value is `width` runs of ROWS numbers, one run after the other, so that what is done number by number is done for a
 * whole run at once. Everything that is read here was checked to lie inside its array when the program was built.
 */

#define RUN(slot) (memory + (slot) * ROWS)

#define BINARY(EXPRESSION)                                                                                            \
    for (int64_t w = 0; w < width; w++) {                                                                             \
        double *RESTRICT o = out + w * ROWS;                                                                          \
        if (step[A] >= 0 && step[B] >= 0) {                                                                           \
            const double *RESTRICT p = a + (step[A_WIDTH] > 1 ? w * ROWS : 0);                                        \
            const double *RESTRICT q = b + (step[B_WIDTH] > 1 ? w * ROWS : 0);                                        \
            for (int r = 0; r < ROWS; r++) {                                                                          \
                const double x = p[r], y = q[r];                                                                      \
                o[r] = EXPRESSION;                                                                                    \
            }                                                                                                         \
        } else if (step[A] >= 0) {                                                                                    \
            const double *RESTRICT p = a + (step[A_WIDTH] > 1 ? w * ROWS : 0);                                        \
            const double y = b[step[B_WIDTH] > 1 ? w : 0];                                                            \
            for (int r = 0; r < ROWS; r++) {                                                                          \
                const double x = p[r];                                                                                \
                o[r] = EXPRESSION;                                                                                    \
            }                                                                                                         \
        } else if (step[B] >= 0) {                                                                                    \
            const double x = a[step[A_WIDTH] > 1 ? w : 0];                                                            \
            const double *RESTRICT q = b + (step[B_WIDTH] > 1 ? w * ROWS : 0);                                        \
            for (int r = 0; r < ROWS; r++) {                                                                          \
                const double y = q[r];                                                                                \
                o[r] = EXPRESSION;                                                                                    \
            }                                                                                                         \
        } else {                                                                                                      \
            const double x = a[step[A_WIDTH] > 1 ? w : 0], y = b[step[B_WIDTH] > 1 ? w : 0];                          \
            for (int r = 0; r < ROWS; r++) o[r] = EXPRESSION;                                                         \
        }                                                                                                             \
    }

#define UNARY(EXPRESSION)                                                                                             \
    for (int64_t i = 0; i < count; i++) {                                                                             \
        const double x = a[i];                                                                                        \
        out[i] = EXPRESSION;                                                                                          \
    }

#define REDUCED(EXPRESSION)                                                                                           \
    for (int r = 0; r < ROWS; r++) out[r] = a[r];                                                                     \
    for (int64_t w = 1; w < step[A_WIDTH]; w++) {                                                                     \
        const double *RESTRICT p = a + w * ROWS;                                                                      \
        for (int r = 0; r < ROWS; r++) {                                                                              \
            const double x = out[r], y = p[r];                                                                        \
            out[r] = EXPRESSION;                                                                                      \
        }                                                                                                             \
    }

#if ROWS == 1

TARGET INLINE void NAMED(dense_single)(
    float *RESTRICT out, const float *RESTRICT x, const float *RESTRICT weight, const float *RESTRICT bias,
    const float *RESTRICT tiles, int64_t inner, int64_t columns) {
    int64_t n = 0;
#if defined(__GNUC__)
    for (; n + 64 <= columns; n += 64) {
        const loose_eight *from = (const loose_eight *)(bias + n);
        /* What is added to the sums comes last: it may be large beside them. */
        eight s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
        for (int64_t k = 0; k < inner; k++) {
            const loose_eight *w = (const loose_eight *)(weight + k * columns + n);
            const eight factor = x[k] - (eight){0};
            s0 += factor * w[0], s1 += factor * w[1], s2 += factor * w[2], s3 += factor * w[3];
            s4 += factor * w[4], s5 += factor * w[5], s6 += factor * w[6], s7 += factor * w[7];
        }
        loose_eight *to = (loose_eight *)(out + n);
        to[0] = s0 + from[0], to[1] = s1 + from[1], to[2] = s2 + from[2], to[3] = s3 + from[3];
        to[4] = s4 + from[4], to[5] = s5 + from[5], to[6] = s6 + from[6], to[7] = s7 + from[7];
    }
    for (; n + 8 <= columns; n += 8) {
        eight sum = {0};
        for (int64_t k = 0; k < inner; k++) sum += x[k] * *(const loose_eight *)(weight + k * columns + n);
        *(loose_eight *)(out + n) = sum + *(const loose_eight *)(bias + n);
    }
#endif
    for (; n < columns; n++) {
        float sums[8] = {0};
        for (int64_t k = 0; k < inner; k++) sums[k % 8] += weight[k * columns + n] * x[k];
        out[n] = (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))) + bias[n];
    }
}

#else

TARGET INLINE void NAMED(dense_single)(
    float *RESTRICT out, const float *RESTRICT x, const float *RESTRICT weight, const float *RESTRICT bias,
    const float *RESTRICT tiles, int64_t inner, int64_t columns) {
    /* TILE columns of half a block of rows: as many sums as registers hold. */
    for (int64_t n = 0; n < columns; n += TILE, tiles += TILE * inner) {
        const int64_t here = columns - n < TILE ? columns - n : TILE;
        for (int half = 0; half < ROWS; half += 16) {
#if defined(__GNUC__)
            eight sums[2 * TILE];
            eight a0 = {0}, a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0;
            eight d0 = a0, d1 = a0, e0 = a0, e1 = a0, f0 = a0, f1 = a0;
            for (int64_t k = 0; k < inner; k++) {
                const eight p = *(const eight *)(x + k * ROWS + half), q = *(const eight *)(x + k * ROWS + half + 8);
                const float *w = tiles + k * TILE;
                a0 += w[0] * p, a1 += w[0] * q, b0 += w[1] * p, b1 += w[1] * q, c0 += w[2] * p, c1 += w[2] * q;
                d0 += w[3] * p, d1 += w[3] * q, e0 += w[4] * p, e1 += w[4] * q, f0 += w[5] * p, f1 += w[5] * q;
            }
            sums[0] = a0, sums[1] = a1, sums[2] = b0, sums[3] = b1, sums[4] = c0, sums[5] = c1;
            sums[6] = d0, sums[7] = d1, sums[8] = e0, sums[9] = e1, sums[10] = f0, sums[11] = f1;
            for (int64_t i = 0; i < here; i++) {
                *(eight *)(out + (n + i) * ROWS + half) = sums[2 * i] + bias[n + i];
                *(eight *)(out + (n + i) * ROWS + half + 8) = sums[2 * i + 1] + bias[n + i];
            }
#else
            for (int64_t i = 0; i < here; i++) {
                float *RESTRICT o = out + (n + i) * ROWS + half;
                for (int r = 0; r < 16; r++) o[r] = 0.0f;
                for (int64_t k = 0; k < inner; k++)
                    for (int r = 0; r < 16; r++) o[r] += tiles[k * TILE + i] * x[k * ROWS + half + r];
                for (int r = 0; r < 16; r++) o[r] += bias[n + i];
            }
#endif
        }
    }
}

#endif

TARGET INLINE void NAMED(dense_double)(
    double *RESTRICT out, const double *RESTRICT x, const double *RESTRICT weight, const double *RESTRICT bias,
    int64_t inner, int64_t columns) {
#if ROWS == 1
    for (int64_t n = 0; n < columns; n++) out[n] = bias[n];
    for (int64_t k = 0; k < inner; k++)
        for (int64_t n = 0; n < columns; n++) out[n] += x[k] * weight[k * columns + n];
#else
    for (int64_t n = 0; n < columns; n++) {
        double sums[ROWS];
        for (int r = 0; r < ROWS; r++) sums[r] = bias[n];
        for (int64_t k = 0; k < inner; k++) {
            const double factor = weight[k * columns + n];
            for (int r = 0; r < ROWS; r++) sums[r] += factor * x[k * ROWS + r];
        }
        for (int r = 0; r < ROWS; r++) out[n * ROWS + r] = sums[r];
    }
#endif
}

TARGET INLINE void NAMED(walk_trees)(
    double *RESTRICT out, const double *RESTRICT x, const Node *RESTRICT nodes, const int32_t *RESTRICT roots,
    int64_t trees) {
    /* Several walks at a time, of rows or of trees, so that one goes on while another waits for its node. A leaf leads
     * to itself. */
    for (int r = 0; r < ROWS; r++) out[r] = 0.0;
#if ROWS == 1
    int64_t t = 0;
    for (; t + WALKS <= trees; t += WALKS) {
        int32_t at[WALKS];
        int moved = 1;
        for (int i = 0; i < WALKS; i++) at[i] = roots[t + i];
        while (moved) {
            moved = 0;
            for (int i = 0; i < WALKS; i++) {
                const Node node = nodes[at[i]];
                const int32_t next = either(x[node.feature] <= node.threshold, at[i] + 1, node.right);
                moved |= next != at[i];
                at[i] = next;
            }
        }
        for (int i = 0; i < WALKS; i++) out[0] += nodes[at[i]].value;
    }
    for (; t < trees; t++) {
        int32_t at = roots[t], before;
        do {
            const Node node = nodes[before = at];
            at = x[node.feature] <= node.threshold ? at + 1 : node.right;
        } while (at != before);
        out[0] += nodes[at].value;
    }
#else
    for (int64_t t = 0; t < trees; t++) {
        for (int start = 0; start < ROWS; start += WALKS) {
            int32_t at[WALKS];
            int moved = 1;
            for (int i = 0; i < WALKS; i++) at[i] = roots[t];
            while (moved) {
                moved = 0;
                for (int i = 0; i < WALKS; i++) {
                    const Node node = nodes[at[i]];
                    const double asked = x[(int64_t)node.feature * ROWS + start + i];
                    const int32_t next = either(asked <= node.threshold, at[i] + 1, node.right);
                    moved |= next != at[i];
                    at[i] = next;
                }
            }
            for (int i = 0; i < WALKS; i++) out[start + i] += nodes[at[i]].value;
        }
    }
#endif
}

TARGET INLINE void NAMED(combine_bits)(
    double *RESTRICT out, const double *RESTRICT x, const Array *RESTRICT tables, int64_t item) {
    /* Where a row lies among the thresholds of each feature says which leaves remain; what remains of all is one. */
    const int32_t *features = tables[0].content;
    const float *thresholds = tables[1].content;
    const char *words = tables[2].content;
    const float *values = tables[3].content;
    const int64_t count = tables[0].count / 3, stride = tables[4].count ? ((const int64_t *)tables[4].content)[1] : 0;
    const int bits = (int)(8 * item);
    int32_t places[MOST_FEATURES][ROWS];
    for (int64_t f = 0; f < count; f++) {
        const double *asked = x + (int64_t)features[3 * f] * ROWS;
        const float *own = thresholds + features[3 * f + 1];
        int32_t length = features[3 * f + 2], at[ROWS];
        for (int r = 0; r < ROWS; r++) at[r] = 0;
        while (length > 1) {
            const int32_t half = length / 2;
            for (int r = 0; r < ROWS; r++) at[r] += own[at[r] + half - 1] < (float)asked[r] ? half : 0;
            length -= half;
        }
        /* One row of the table more than thresholds for each feature before. */
        for (int r = 0; r < ROWS; r++)
            places[f][r] = at[r] + (own[at[r]] < (float)asked[r]) + features[3 * f + 1] + (int32_t)f;
    }
    for (int r = 0; r < ROWS; r++) out[r] = 0.0;
    for (int64_t start = 0; start < stride; start += SEGMENT) {
        /* A feature after the other, so that its part of the table stays in the cache for all rows. */
        uint64_t left[ROWS][SEGMENT / 8];
        const int64_t parts = (stride - start < SEGMENT ? stride - start : SEGMENT) / 8;
        for (int r = 0; r < ROWS; r++) memcpy(left[r], words + places[0][r] * stride + start, 8 * parts);
        for (int64_t f = 1; f < count; f++)
            for (int r = 0; r < ROWS; r++) {
                const uint64_t *other = (const uint64_t *)(words + places[f][r] * stride + start);
                for (int64_t i = 0; i < parts; i++) left[r][i] &= other[i];
            }
        for (int r = 0; r < ROWS; r++) {
            double sum = out[r];
            const float *value = values + 8 * start;
            for (int64_t i = 0; i < parts; i++)
                for (int part = 0; part < 64; part += bits, value += bits) {
                    const uint64_t word = bits == 64 ? left[r][i] : left[r][i] >> part & (((uint64_t)1 << bits) - 1);
                    sum += value[lowest_bit(word)];
                }
            out[r] = sum;
        }
    }
}

TARGET INLINE void NAMED(number_leaves)(
    double *RESTRICT out, const double *RESTRICT x, const int32_t *RESTRICT feature, const float *RESTRICT border,
    const float *RESTRICT leaves, int64_t trees, int64_t levels) {
    for (int r = 0; r < ROWS; r++) out[r] = 0.0;
    for (int64_t t = 0; t < trees; t++) {
        int32_t number[ROWS];
        for (int r = 0; r < ROWS; r++) number[r] = 0;
        for (int64_t level = 0; level < levels; level++) {
            const double *asked = x + (int64_t)feature[t * levels + level] * ROWS;
            const double edge = border[t * levels + level];
            for (int r = 0; r < ROWS; r++) number[r] |= (int32_t)(asked[r] > edge) << level;
        }
        const float *own = leaves + (t << levels);
        for (int r = 0; r < ROWS; r++) out[r] += own[number[r]];
    }
}

TARGET INLINE void NAMED(nearest_points)(
    double *RESTRICT out, const double *RESTRICT x, const double *RESTRICT points, const double *RESTRICT values,
    const double *RESTRICT facts, int64_t inner, int64_t count) {
    const int64_t wanted = (int64_t)facts[0] < count ? (int64_t)facts[0] : count;
    for (int r = 0; r < ROWS; r++) {
        Neighbours near;
        neighbours_start(&near, wanted);
        for (int64_t start = 0; start < count; start += POINTS) {
            double squares[POINTS];
            const int64_t here = count - start < POINTS ? count - start : POINTS;
            for (int i = 0; i < POINTS; i++) squares[i] = 0.0;
            for (int64_t k = 0; k < inner; k++) {
                const double own = x[k * ROWS + r];
                const double *p = points + k * count + start;
                for (int64_t i = 0; i < here; i++) squares[i] += (own - p[i]) * (own - p[i]);
            }
            for (int64_t i = 0; i < here; i++) neighbours_offer(&near, squares[i], values[start + i]);
        }
        out[r] = neighbours_mean(&near, facts[1]);
    }
}

/* Squared distances are |x|^2 + |p|^2 - 2 x p. Tiles of POINTS points hold -2 p, number by number, and all of it was
 * multiplied by what the kernel multiplies squares with. */

#if ROWS == 1

TARGET INLINE double NAMED(kernels_of_tile)(
    const double *RESTRICT x, double own, const double *RESTRICT tile, const double *RESTRICT squares,
    const double *RESTRICT weights, int64_t inner, int is_matern) {
    double found[POINTS], sums[4] = {0};
#if defined(__GNUC__)
    four s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int64_t k = 0; k < inner; k++) {
        const loose_four *p = (const loose_four *)(tile + k * POINTS);
        const four factor = x[k] - (four){0};
        s0 += factor * p[0], s1 += factor * p[1], s2 += factor * p[2], s3 += factor * p[3];
        s4 += factor * p[4], s5 += factor * p[5], s6 += factor * p[6], s7 += factor * p[7];
    }
    loose_four *to = (loose_four *)found;
    to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3, to[4] = s4, to[5] = s5, to[6] = s6, to[7] = s7;
#else
    for (int i = 0; i < POINTS; i++) found[i] = 0.0;
    for (int64_t k = 0; k < inner; k++)
        for (int i = 0; i < POINTS; i++) found[i] += x[k] * tile[k * POINTS + i];
#endif
    for (int i = 0; i < POINTS; i++) found[i] = kernel_of((found[i] + squares[i]) + own, is_matern) * weights[i];
    for (int i = 0; i < POINTS; i += 4)
        for (int j = 0; j < 4; j++) sums[j] += found[i + j];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#else

TARGET INLINE void NAMED(kernels_of_tile)(
    double *RESTRICT sums, const double *RESTRICT x, const double *RESTRICT own, const double *RESTRICT tile,
    const double *RESTRICT squares, const double *RESTRICT weights, int64_t inner, int is_matern) {
    /* Four points and eight rows at a time: as many sums as registers hold. */
    for (int start = 0; start < POINTS; start += 4)
        for (int r = 0; r < ROWS; r += 8) {
            double found[32];
#if defined(__GNUC__)
            four a0 = {0}, a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
            for (int64_t k = 0; k < inner; k++) {
                const four p = *(const four *)(x + k * ROWS + r), q = *(const four *)(x + k * ROWS + r + 4);
                const double *w = tile + k * POINTS + start;
                a0 += w[0] * p, a1 += w[0] * q, b0 += w[1] * p, b1 += w[1] * q;
                c0 += w[2] * p, c1 += w[2] * q, d0 += w[3] * p, d1 += w[3] * q;
            }
            loose_four *to = (loose_four *)found;
            to[0] = a0, to[1] = a1, to[2] = b0, to[3] = b1, to[4] = c0, to[5] = c1, to[6] = d0, to[7] = d1;
#else
            for (int i = 0; i < 32; i++) found[i] = 0.0;
            for (int64_t k = 0; k < inner; k++)
                for (int i = 0; i < 32; i++) found[i] += tile[k * POINTS + start + i / 8] * x[k * ROWS + r + i % 8];
#endif
            for (int i = 0; i < 4; i++) {
                const double square = squares[start + i], weight = weights[start + i];
                for (int j = 0; j < 8; j++)
                    sums[r + j] += kernel_of((found[8 * i + j] + square) + own[r + j], is_matern) * weight;
            }
        }
}

#endif

TARGET INLINE void NAMED(sum_kernels)(
    double *RESTRICT out, const double *RESTRICT x, const double *RESTRICT tiles, const double *RESTRICT squares,
    const double *RESTRICT weights, const double *RESTRICT facts, int64_t inner, int64_t count, int is_matern) {
    double own[ROWS], sums[ROWS];
    for (int r = 0; r < ROWS; r++) own[r] = sums[r] = 0.0;
    for (int64_t k = 0; k < inner; k++)
        for (int r = 0; r < ROWS; r++) own[r] += x[k * ROWS + r] * x[k * ROWS + r];
    for (int r = 0; r < ROWS; r++) own[r] *= facts[0];
    for (int64_t start = 0; start < count; start += POINTS) {
        const double *tile = tiles + start * inner;
#if ROWS == 1
        sums[0] += NAMED(kernels_of_tile)(x, own[0], tile, squares + start, weights + start, inner, is_matern);
#else
        NAMED(kernels_of_tile)(sums, x, own, tile, squares + start, weights + start, inner, is_matern);
#endif
    }
    /* What is no number, or too large to have a distance, has no kernels. */
    for (int r = 0; r < ROWS; r++) out[r] = sums[r] + 0.0 * own[r];
}

TARGET static void NAMED(run_steps)(const Machine *machine, double *RESTRICT memory) {
    for (int64_t s = 0; s < machine->steps; s++) {
        const int64_t *step = machine->code + s * FIELDS;
        if (step[CONDITION] >= 0) {
            const double *flags = RUN(step[CONDITION]);
            int needed = 0;
            for (int r = 0; r < ROWS; r++) needed |= (flags[r] != 0.0) == (step[TRUTH] != 0);
            if (!needed) continue;
        }
        const int64_t width = step[WIDTH], count = width * ROWS;
        double *RESTRICT out = RUN(step[OUT]);
        const double *a = step[A] >= 0 ? RUN(step[A]) : machine->constants - step[A] - 1;
        const double *b = step[B] >= 0 ? RUN(step[B]) : machine->constants - step[B] - 1;
        const Array *table = machine->tables + (step[TABLE] >= 0 ? step[TABLE] : 0);
        switch (step[OPERATION]) {
        case ADD: BINARY(x + y) break;
        case SUBTRACT: BINARY(x - y) break;
        case MULTIPLY: BINARY(x * y) break;
        case DIVIDE: BINARY(x / y) break;
        case FLOOR_DIVIDE: BINARY(floor(x / y)) break;
        case REMAINDER: BINARY(x - y * floor(x / y)) break;
        /* As NumPy has it: what is no number stays none. */
        case MINIMUM: BINARY((x < y || x != x) ? x : y) break;
        case MAXIMUM: BINARY((x > y || x != x) ? x : y) break;
        case LESS: BINARY(x < y ? 1.0 : 0.0) break;
        case LESS_EQUAL: BINARY(x <= y ? 1.0 : 0.0) break;
        case EQUAL: BINARY(x == y ? 1.0 : 0.0) break;
        case LOG: log_of_many(out, a, count); break;
        case LOG1P: log1p_of_many(out, a, count); break;
        case EXP: exp_of_many(out, a, count); break;
        case SQRT: UNARY(sqrt(x)) break;
        case SIN: {
            const int64_t *next = step + FIELDS;
            if (s + 1 < machine->steps && next[OPERATION] == COS && next[A] == step[A] && next[WIDTH] == width &&
                next[CONDITION] == step[CONDITION] && next[TRUTH] == step[TRUTH] && is_apart(step, next[OUT], width, 0, 0)) {
                sine_and_cosine_of_many(out, RUN(next[OUT]), a, count);
                s++;
            } else
                sine_of_many(out, a, count, 0);
            break;
        }
        case COS: sine_of_many(out, a, count, 1); break;
        case FLOOR: UNARY(floor(x)) break;
        case RINT: UNARY(rint(x)) break;
        case ABSOLUTE: UNARY(fabs(x)) break;
        case ROUNDED: UNARY((double)(float)x) break;
        case SUM: REDUCED(x + y) break;
        case LEAST: REDUCED((x < y || x != x) ? x : y) break;
        case MOST: REDUCED((x > y || x != x) ? x : y) break;
        case WHERE: {
            const double *c = step[C] >= 0 ? RUN(step[C]) : machine->constants - step[C] - 1;
            for (int64_t w = 0; w < width; w++)
                for (int r = 0; r < ROWS; r++) {
                    const double flag = at_place(a, step[A], step[A_WIDTH], w, r, ROWS);
                    const double x = at_place(b, step[B], step[B_WIDTH], w, r, ROWS);
                    const double y = at_place(c, step[C], step[C_WIDTH], w, r, ROWS);
                    out[w * ROWS + r] = flag != 0.0 ? x : y;
                }
            break;
        }
        case COPY:
            for (int64_t w = 0; w < width; w++)
                for (int r = 0; r < ROWS; r++) out[w * ROWS + r] = step[A] >= 0 ? a[w * ROWS + r] : a[w];
            break;
        case TAKE: {
            const int32_t *places = table[0].content;
            for (int64_t w = 0; w < width; w++)
                for (int r = 0; r < ROWS; r++) out[w * ROWS + r] = a[(int64_t)places[w] * ROWS + r];
            break;
        }
        case LOOK_UP: {
            const double *rows = table[0].content;
            const double last = (double)(table[0].count / width - 1);
            for (int r = 0; r < ROWS; r++) {
                const int64_t place = (int64_t)((a[r] >= 0.0 && a[r] <= last) ? a[r] : last);
                for (int64_t w = 0; w < width; w++) out[w * ROWS + r] = rows[place * width + w];
            }
            break;
        }
        case SINGLE: {
            float *RESTRICT o = (float *)out;
            for (int64_t i = 0; i < count; i++) o[i] = (float)a[i];
            break;
        }
        case DOUBLE: {
            const float *p = (const float *)a;
            for (int64_t i = 0; i < count; i++) out[i] = p[i];
            break;
        }
        case ADD_SINGLE: {
            float *RESTRICT o = (float *)out;
            const float *p = (const float *)a, *q = (const float *)b;
            for (int64_t i = 0; i < count; i++) o[i] = p[i] + q[i];
            break;
        }
        case SILU: silu_of_many((float *)out, (const float *)a, count); break;
        case DENSE_SINGLE:
            NAMED(dense_single)(
                (float *)out, (const float *)a, table[0].content, table[1].content, table[2].content, step[A_WIDTH],
                width);
            break;
        case DENSE_DOUBLE:
            NAMED(dense_double)(out, a, table[0].content, table[1].content, step[A_WIDTH], width);
            break;
        case TREES: NAMED(walk_trees)(out, a, table[0].content, table[1].content, table[1].count); break;
        case BIT_TREES:
            /* The size of a word is told once more as a constant, so that what goes over words is unrolled. */
            switch (*(const int64_t *)table[4].content) {
            case 1: NAMED(combine_bits)(out, a, table, 1); break;
            case 2: NAMED(combine_bits)(out, a, table, 2); break;
            case 4: NAMED(combine_bits)(out, a, table, 4); break;
            default: NAMED(combine_bits)(out, a, table, 8); break;
            }
            break;
        case OBLIVIOUS_TREES: {
            const int64_t levels = *(const int64_t *)table[3].content;
            NAMED(number_leaves)(
                out, a, table[0].content, table[1].content, table[2].content, table[0].count / levels, levels);
            break;
        }
        case KERNEL: {
            const double *facts = table[3].content;
            const int64_t points = table[2].count;
            /* The shape is told once more as a constant, so that the loop over points has no branch. */
            if (facts[1] == 0.0)
                NAMED(sum_kernels)(
                    out, a, table[0].content, table[1].content, table[2].content, facts, step[A_WIDTH], points, 0);
            else
                NAMED(sum_kernels)(
                    out, a, table[0].content, table[1].content, table[2].content, facts, step[A_WIDTH], points, 1);
            break;
        }
        case NEAREST:
            NAMED(nearest_points)(
                out, a, table[0].content, table[1].content, table[2].content, step[A_WIDTH], table[1].count);
            break;
        default: break;
        }
    }
}

#undef RUN
#undef BINARY
#undef UNARY
#undef REDUCED
