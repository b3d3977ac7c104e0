// Statistics of random rows, sent in any order, twice, or by processes that were replaced: every node that
// has heard all others finds the same bits, and they are those of all rows together. Statistics that no rows
// can have are refused and change nothing.
#include "gossip/statistics/statistics.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = 9, ROWS_MAX = 12, COLUMNS_MAX = 600, BLOCKS_MAX = 3, ROUNDS = 60 };

struct world {
    size_t nodes, columns, rows[NODES_MAX];
    float x[NODES_MAX][ROWS_MAX][COLUMNS_MAX];
    struct gossip_statistics *old[NODES_MAX], *node[NODES_MAX]; // of an earlier process; of this one
};
static struct world w;
static struct gossip_spread first[COLUMNS_MAX], other[COLUMNS_MAX];

static struct gossip_id id_of(size_t node)
{
    return (struct gossip_id){{(uint8_t)(node * 37 % 251 + 1)}}; // not in the order of the nodes
}

static struct gossip_spread spread_of(size_t from, size_t to, size_t column)
{
    struct gossip_spread s = {INFINITY, -INFINITY, 0, 0};
    double rows = 0;
    for (size_t n = from; n < to; n++)
        for (size_t r = 0; r < w.rows[n]; r++, rows++) {
            s.mean += (double)w.x[n][r][column];
            s.least = fmin(s.least, (double)w.x[n][r][column]);
            s.most = fmax(s.most, (double)w.x[n][r][column]);
        }
    s.mean /= rows;
    for (size_t n = from; n < to; n++)
        for (size_t r = 0; r < w.rows[n]; r++)
            s.deviation += ((double)w.x[n][r][column] - s.mean) * ((double)w.x[n][r][column] - s.mean);
    s.deviation = fmin(sqrt(s.deviation / rows), (s.most - s.least) / 2);
    s.mean = fmin(fmax(s.mean, s.least), s.most);
    return s;
}

static struct gossip_statistics *make(size_t node, uint64_t generation)
{
    struct gossip_statistics *made = NULL;
    struct gossip_spread own[COLUMNS_MAX];
    for (size_t c = 0; c < w.columns; c++)
        own[c] = spread_of(node, node + 1, c);
    const struct gossip_statistics_options options = {.self = id_of(node),
                                                      .generation = generation,
                                                      .rows = w.rows[node],
                                                      .columns = (uint32_t)w.columns,
                                                      .spreads = own};
    assert_int_equal(gossip_statistics_create(&options, &made), BASE_OK);
    return made;
}

static void draw(size_t node) // columns of very different size, some of them constant
{
    w.rows[node] = 1 + (size_t)base_rng_below(&rng, ROWS_MAX);
    for (size_t r = 0; r < w.rows[node]; r++)
        for (size_t c = 0; c < w.columns; c++) {
            const float unit = powf(10, (float)(c % 9) - 4);
            w.x[node][r][c] = c % 11 == 10 ? 0.1f : unit * (1000 + 10 * (float)base_rng_uniform(&rng));
        }
}

static void begin(size_t nodes, size_t columns)
{
    w.nodes = nodes;
    w.columns = columns;
    for (size_t n = 0; n < nodes; n++) {
        draw(n);
        w.old[n] = make(n, 3);
        draw(n);
        w.node[n] = make(n, 4);
    }
}

static void end(void)
{
    for (size_t n = 0; n < w.nodes; n++) {
        gossip_statistics_destroy(w.old[n]);
        gossip_statistics_destroy(w.node[n]);
    }
}

static enum base_error tell(const struct gossip_statistics *from, size_t node, size_t block, size_t to)
{
    const struct gossip_message message = gossip_statistics_tell(from, block);
    const struct gossip_id id = id_of(node);
    return gossip_statistics_take(w.node[to], &id, &message.as.statistics);
}

// All statistics of the others, in a random order; some of them twice, some from an earlier process.
static void hear_all(size_t to)
{
    struct {
        bool old;
        size_t node, block;
    } heard[4 * NODES_MAX * BLOCKS_MAX];
    const size_t blocks = gossip_statistics_blocks(w.node[0]);
    size_t count = 0;
    for (size_t n = 0; n < w.nodes; n++)
        for (size_t b = 0; b < blocks && n != to; b++) {
            heard[count].old = false;
            heard[count].node = n;
            heard[count++].block = b;
            for (size_t more = (size_t)base_rng_below(&rng, 3); more-- > 0; count++) {
                heard[count] = heard[count - 1];
                heard[count].old = base_rng_below(&rng, 2);
            }
        }
    for (; count > 0; count--) {
        const size_t i = (size_t)base_rng_below(&rng, count);
        const size_t n = heard[i].node;
        assert_int_equal(tell(heard[i].old ? w.old[n] : w.node[n], n, heard[i].block, to), BASE_OK);
        heard[i] = heard[count - 1];
    }
}

static void close_to(double found, double expected, double width)
{
    assert_true(fabs(found - expected) <= 1e-9 * width + 1e-12 * fabs(expected));
}

static void any_order_gives_the_same_bits_and_those_of_all_rows(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        begin(1 + (size_t)base_rng_below(&rng, NODES_MAX), 1 + (size_t)base_rng_below(&rng, COLUMNS_MAX));
        for (size_t n = 0; n < w.nodes; n++) {
            hear_all(n);
            assert_int_equal(gossip_statistics_join(w.node[n], n == 0 ? first : other), w.nodes);
            if (n > 0)
                assert_memory_equal(first, other, w.columns * sizeof *first);
        }
        for (size_t c = 0; c < w.columns; c++) {
            const struct gossip_spread all = spread_of(0, w.nodes, c);
            assert_true(first[c].least == all.least && first[c].most == all.most);
            close_to(first[c].mean, all.mean, all.most - all.least);
            close_to(first[c].deviation, all.deviation, all.most - all.least);
        }
        end();
    }
}

static void half_of_the_statistics_of_a_node_do_not_count(void **state)
{
    (void)state;
    begin(2, 2 * GOSSIP_STATISTICS_BLOCK);
    const struct gossip_id id = id_of(1);
    assert_int_equal(tell(w.node[1], 1, 1, 0), BASE_OK);
    assert_false(gossip_statistics_has(w.node[0], &id));
    assert_int_equal(gossip_statistics_join(w.node[0], first), 1);
    assert_int_equal(tell(w.node[1], 1, 0, 0), BASE_OK);
    assert_true(gossip_statistics_has(w.node[0], &id));
    assert_int_equal(gossip_statistics_join(w.node[0], first), 2);
    end();
}

static void the_statistics_of_a_later_process_replace_those_of_an_earlier_one(void **state)
{
    (void)state;
    begin(2, 3);
    assert_int_equal(tell(w.old[1], 1, 0, 0), BASE_OK);
    assert_int_equal(gossip_statistics_join(w.node[0], first), 2);
    assert_int_equal(tell(w.node[1], 1, 0, 0), BASE_OK);
    assert_int_equal(gossip_statistics_join(w.node[0], other), 2);
    assert_memory_not_equal(first, other, 3 * sizeof *first);
    assert_int_equal(tell(w.old[1], 1, 0, 0), BASE_OK); // it was delayed
    assert_int_equal(gossip_statistics_join(w.node[0], first), 2);
    assert_memory_equal(first, other, 3 * sizeof *first);
    end();
}

static void statistics_that_no_rows_can_have_are_refused(void **state)
{
    (void)state;
    static const double bad[][4] = {{NAN, 1, 0.5, 0.1},
                                    {0, NAN, 0.5, 0.1},
                                    {0, 1, NAN, 0.1},
                                    {0, 1, 0.5, NAN},
                                    {-INFINITY, 1, 0.5, 0.1},
                                    {0, INFINITY, 1, 0.1},
                                    {0, 2.0 * FLT_MAX, 1, 1},
                                    {-2.0 * FLT_MAX, 1, 0, 1},
                                    {0, 1, 1.5, 0.1},
                                    {0, 1, -0.5, 0.1},
                                    {1, 0, 0.5, 0},
                                    {0, 1, 0.5, -0.1},
                                    {0, 1, 0.5, 0.51},
                                    {3, 3, 3, 0.1},
                                    {0, 1, INFINITY, INFINITY}};
    begin(2, 1);
    const struct gossip_id id = id_of(1), self = id_of(0);
    struct gossip_message message = gossip_statistics_tell(w.node[1], 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        message.as.statistics.spreads = (const uint8_t *)bad[i];
        assert_int_equal(gossip_statistics_take(w.node[0], &id, &message.as.statistics), BASE_EFORMAT);
    }
    static const double good[4] = {0, 1, 0.5, 0.5};
    message.as.statistics.spreads = (const uint8_t *)good;
    assert_int_equal(gossip_statistics_take(w.node[0], &self, &message.as.statistics), BASE_EFORMAT);
    message.as.statistics.columns = 2;
    assert_int_equal(gossip_statistics_take(w.node[0], &id, &message.as.statistics), BASE_EFORMAT);
    message.as.statistics.columns = 1;
    assert_int_equal(gossip_statistics_join(w.node[0], first), 1);
    assert_int_equal(gossip_statistics_take(w.node[0], &id, &message.as.statistics), BASE_OK);
    assert_int_equal(gossip_statistics_join(w.node[0], first), 2);
    end();
}

static void unknown_nodes_use_no_more_than_their_room(void **state)
{
    (void)state;
    begin(1, 1);
    struct gossip_message message = gossip_statistics_tell(w.old[0], 0);
    for (uint32_t i = 0; i < LIMIT_PEERS; i++) {
        const struct gossip_id id = {{(uint8_t)(2 + i % 200), (uint8_t)(i / 200)}};
        assert_int_equal(gossip_statistics_take(w.node[0], &id, &message.as.statistics),
                         i + 1 < LIMIT_PEERS ? BASE_OK : BASE_ELIMIT);
    }
    assert_int_equal(gossip_statistics_join(w.node[0], first), LIMIT_PEERS);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_same_bits_and_those_of_all_rows),
        cmocka_unit_test(half_of_the_statistics_of_a_node_do_not_count),
        cmocka_unit_test(the_statistics_of_a_later_process_replace_those_of_an_earlier_one),
        cmocka_unit_test(statistics_that_no_rows_can_have_are_refused),
        cmocka_unit_test(unknown_nodes_use_no_more_than_their_room),
    };
    seeded_begin(20261123);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
