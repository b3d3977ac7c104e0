// The test vectors of docs/PROTOCOL.md (test/interop/vectors): the code still writes exactly these bytes.
// With
// --write DIRECTORY this program writes the files instead.
#include "base/bf16.h"
#include "base/hash.h"
#include "compress/packet.h"
#include "gossip/blob.h"
#include "gossip/exchange/exchange.h"
#include "gossip/member/state.h"
#include "gossip/merge/merge.h"
#include "gossip/pace/news.h"
#include "gossip/session/datagram.h"
#include "gossip/session/session.h"
#include "gossip/wire/message.h"
#include "test/support/cpu_kernels.h"
#include "test/support/exchange_net.h"
#include "topology/file.h"
#include "train/model.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLUSTER "vectors"
#define LARGE   20000u // bytes of a message in several records

// -- JSON: an object of objects, a field a line

struct out {
    FILE *file;
    bool inside, more; // inside an object; after a field
};

static void begin(struct out *out, const char *name)
{
    assert_false(out->inside);
    fprintf(out->file, "%s\n  \"%s\": {", out->more ? "," : "", name);
    out->inside = true;
    out->more = false;
}

static void end(struct out *out)
{
    assert_true(out->inside);
    fprintf(out->file, "\n  }");
    out->inside = false;
    out->more = true;
}

static void key(struct out *out, const char *name)
{
    assert_true(out->inside);
    fprintf(out->file, "%s\n    \"%s\": ", out->more ? "," : "", name);
    out->more = true;
}

static void text(struct out *out, const char *name, const char *value)
{
    key(out, name);
    fprintf(out->file, "\"%s\"", value);
}

static void number(struct out *out, const char *name, uint64_t value)
{
    key(out, name);
    fprintf(out->file, "%" PRIu64, value);
}

static void hex(struct out *out, const char *name, const void *bytes, size_t count)
{
    key(out, name);
    fputc('"', out->file);
    for (size_t i = 0; i < count; i++)
        fprintf(out->file, "%02x", ((const uint8_t *)bytes)[i]);
    fputc('"', out->file);
}

static void numbers(struct out *out, const char *name, const uint32_t *values, size_t count)
{
    key(out, name);
    for (size_t i = 0; i < count; i++)
        fprintf(out->file, "%s%" PRIu32, i ? ", " : "[", values[i]);
    fputs(count ? "]" : "[]", out->file);
}

// Values as their bytes, little-endian.
static void floats(struct out *out, const char *name, const float *values, size_t count)
{
    hex(out, name, values, count * sizeof *values);
}

// -- keys

static const uint8_t SECRET[] = "correct horse battery staple";

static struct gossip_secrets secrets(void)
{
    struct gossip_secrets made = {.count = 1};
    crypto_generichash_blake2b(made.psk[0], sizeof made.psk[0], SECRET, sizeof SECRET - 1, NULL, 0);
    return made;
}

static struct gossip_identity identity_of(uint8_t first)
{
    struct gossip_identity identity;
    uint8_t seed[32];
    for (size_t i = 0; i < sizeof seed; i++)
        seed[i] = (uint8_t)(first + i);
    gossip_identity_from_seed(seed, &identity);
    return identity;
}

static void put_identity(struct out *out, const char *name, uint8_t first)
{
    const struct gossip_identity identity = identity_of(first);
    uint8_t seed[32];
    for (size_t i = 0; i < sizeof seed; i++)
        seed[i] = (uint8_t)(first + i);
    begin(out, name);
    hex(out, "seed", seed, sizeof seed);
    hex(out, "id", identity.id.bytes, sizeof identity.id.bytes);
    hex(out, "exchange_public", identity.exchange_public, sizeof identity.exchange_public);
    hex(out, "binding", identity.binding, sizeof identity.binding);
    end(out);
}

// The real function reads files; the psk of a secret is that of its line.
static void write_keys(struct out *out)
{
    struct gossip_secrets none, one;
    struct base_reason why;
    char path[] = "/tmp/p2pml-interop-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, SECRET, sizeof SECRET - 1), sizeof SECRET - 1);
    assert_int_equal(close(file), 0);
    assert_int_equal(gossip_secrets_load(NULL, &none, &why), BASE_OK);
    assert_int_equal(gossip_secrets_load(path, &one, &why), BASE_OK);
    assert_int_equal(unlink(path), 0);
    assert_memory_equal(one.psk[0], secrets().psk[0], sizeof one.psk[0]);
    put_identity(out, "initiator", 1);
    put_identity(out, "responder", 101);
    begin(out, "psk");
    text(out, "secret", (const char *)SECRET);
    hex(out, "psk", one.psk[0], sizeof one.psk[0]);
    hex(out, "without_secret", none.psk[0], sizeof none.psk[0]);
    end(out);
}

// -- streams

struct stream {
    struct gossip_identity identity[2];
    struct gossip_session *side[2];
    uint8_t entropy[2][32];
};

static struct stream stream_of(uint8_t first_entropy)
{
    struct stream stream = {.identity = {identity_of(1), identity_of(101)}};
    for (size_t i = 0; i < 2; i++)
        memset(stream.entropy[i], (int)(first_entropy + i), sizeof stream.entropy[i]);
    return stream;
}

static void open_stream(struct stream *stream)
{
    const struct gossip_secrets known = secrets();
    for (size_t i = 0; i < 2; i++) {
        struct gossip_session_options options = {.initiator = i == 0,
                                                 .identity = &stream->identity[i],
                                                 .secrets = &known,
                                                 .cluster = CLUSTER,
                                                 .message_limit = 1u << 20,
                                                 .aeads = GOSSIP_AEAD_BIT(GOSSIP_AEAD_CHACHAPOLY),
                                                 .protocols = {i ? 19 : 20, i ? 22 : 21}};
        memcpy(options.entropy, stream->entropy[i], sizeof options.entropy);
        assert_int_equal(gossip_session_create(&options, &stream->side[i]), BASE_OK);
    }
}

static void put_handshake(struct out *out, struct stream *stream)
{
    static const char *const names[] = {"message_0", "message_1", "message_2"};
    struct base_buffer sent = {0}, answer = {0};
    struct gossip_session_event event;
    size_t consumed;
    assert_int_equal(gossip_session_start(stream->side[0], &sent), BASE_OK);
    for (size_t i = 0; i < 3; i++) {
        hex(out, names[i], base_buffer_head(&sent), base_buffer_length(&sent));
        assert_int_equal(gossip_session_receive(stream->side[1 - i % 2], base_buffer_head(&sent),
                                                base_buffer_length(&sent), &consumed, &answer, &event),
                         BASE_OK);
        base_buffer_free(&sent);
        sent = answer;
        answer = (struct base_buffer){0};
    }
    base_buffer_free(&sent);
    number(out, "protocol", event.protocol);
}

static void digest(struct out *out, const char *name, const uint8_t *bytes, size_t count)
{
    uint8_t hash[32];
    crypto_generichash_blake2b(hash, sizeof hash, bytes, count, NULL, 0);
    hex(out, name, hash, sizeof hash);
}

// A small message, a large one, and the small one again under the key after the next.
static void put_records(struct out *out, struct gossip_sealer *sealer)
{
    static const uint8_t small[] = "a small message";
    uint8_t *large = malloc(LARGE), *room = malloc(2 * LARGE);
    const struct gossip_session_part one = {small, sizeof small - 1}, whole = {large, LARGE};
    assert_true(large && room);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (uint8_t)(i * 7 + i / 256);
    hex(out, "small", small, sizeof small - 1);
    hex(out, "small_sealed", room, gossip_sealer_prompt(sealer, &one, 1, room));
    assert_int_equal(gossip_sealer_begin(sealer, &whole, 1), BASE_OK);
    const size_t bytes = gossip_sealer_next(sealer, room, 2 * LARGE);
    assert_true(gossip_sealer_idle(sealer));
    hex(out, "large_begin", room, 23); // the record with its length
    digest(out, "large_sealed_blake2b_256", room, bytes);
    for (size_t i = 4; i < LIMIT_REKEY_RECORDS; i++)
        assert_true(gossip_sealer_prompt(sealer, &one, 1, room) > 0);
    hex(out, "record_65536", room, gossip_sealer_prompt(sealer, &one, 1, room));
    free(large);
    free(room);
}

static void write_streams(struct out *out)
{
    struct stream stream = stream_of(0x40);
    struct gossip_sealer *sealer[2];
    struct gossip_opener *opener[2];
    open_stream(&stream);
    begin(out, "handshake");
    text(out, "cluster", CLUSTER);
    hex(out, "psk", secrets().psk[0], 32);
    hex(out, "ephemeral_initiator", stream.entropy[0], 32);
    hex(out, "ephemeral_responder", stream.entropy[1], 32);
    put_handshake(out, &stream);
    end(out);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(gossip_session_split(stream.side[i], &sealer[i], &opener[i]), BASE_OK);
        begin(out, i ? "records_of_responder" : "records_of_initiator");
        put_records(out, sealer[i]);
        end(out);
        gossip_sealer_destroy(sealer[i]);
        gossip_opener_destroy(opener[i]);
        gossip_session_destroy(stream.side[i]);
    }
}

// -- datagrams

static void write_datagrams(struct out *out)
{
    static const uint8_t plain[] = "a packet of membership";
    const struct gossip_identity from = identity_of(1), to = identity_of(101);
    const struct gossip_secrets known = secrets();
    const struct gossip_datagrams_options options = {.identity = &from,
                                                     .secrets = &known,
                                                     .cluster = CLUSTER,
                                                     .generation = 7,
                                                     .entropy = {1, 2, 3, 4, 5, 6, 7, 8}};
    struct gossip_datagrams *datagrams;
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t bytes;
    assert_int_equal(gossip_datagrams_create(&options, &datagrams), BASE_OK);
    assert_int_equal(gossip_datagrams_peer(datagrams, &to.id, to.exchange_public, 9), BASE_OK);
    begin(out, "datagram");
    text(out, "cluster", CLUSTER);
    number(out, "generation_of_sender", options.generation);
    number(out, "generation_of_receiver", 9);
    hex(out, "entropy", options.entropy, sizeof options.entropy);
    hex(out, "plain", plain, sizeof plain - 1);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(gossip_datagram_seal(datagrams, &to.id, 9, plain, sizeof plain - 1, sealed, &bytes),
                         BASE_OK);
        hex(out, i ? "second" : "first", sealed, bytes);
    }
    end(out);
    gossip_datagrams_destroy(datagrams);
}

// -- membership

static struct gossip_record plain_record(const struct gossip_identity *identity)
{
    struct gossip_record record = {.id = identity->id,
                                   .version = {3, 0x0123456789abcdefull, 5},
                                   .flags = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING,
                                   .name = "node-a",
                                   .slot = GOSSIP_NO_SLOT,
                                   .shard = GOSSIP_NO_SHARD,
                                   .group = 77,
                                   .age_ms = 12345,
                                   .n_addresses = 1,
                                   .addresses = {{4, {127, 0, 0, 1}, 7400}},
                                   .ways = GOSSIP_WAY_REACHABLE};
    memcpy(record.exchange_public, identity->exchange_public, sizeof record.exchange_public);
    gossip_record_sign(&record, identity);
    return record;
}

static struct gossip_record full_record(const struct gossip_identity *identity)
{
    struct gossip_record record = {
        .id = identity->id,
        .version = {0x1122334455667788ull, 2, 3},
        .flags = GOSSIP_RECORD_HELD | GOSSIP_RECORD_STOPPING | GOSSIP_RECORD_PAUSED,
        .name = "node.B_2",
        .slot = 4,
        .shard = 2,
        .group = 0xfedcba98u,
        .examples = 1000,
        .stop_round = 900,
        .age_ms = 1,
        .first_model = 0x8877665544332211ull,
        .n_addresses = 2,
        .addresses = {{6, {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, 7400}, {4, {10, 0, 0, 7}, 65535}},
        .pages = {4, {0, 0, 0, 0}, 7480},
        .ways = GOSSIP_WAY_RELAYS,
        .access = GOSSIP_ACCESS_HARD,
        .n_relays = 2,
        .relays = {1, UINT64_MAX},
        .settings = {{.round = 50, .by = 99, .value = 0.25, .before = (double)NAN},
                     {.round = 60, .by = 98, .value = 0.125, .before = 0.5}}};
    memcpy(record.exchange_public, identity->exchange_public, sizeof record.exchange_public);
    gossip_record_sign(&record, identity);
    return record;
}

static void put_record(struct out *out, const char *name, const struct gossip_record *record)
{
    uint8_t bytes[GOSSIP_RECORD_BYTES_MAX];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    gossip_record_write(record, &writer);
    assert_false(writer.failed);
    begin(out, name);
    hex(out, "bytes", bytes, base_writer_used(&writer));
    end(out);
}

static void put_packet(struct out *out, const char *name, const struct member_packet *packet)
{
    hex(out, name, packet->bytes, (size_t)(packet->writer.at - packet->bytes));
}

static void write_membership(struct out *out)
{
    const struct gossip_identity a = identity_of(1), b = identity_of(101);
    struct member self = {.record = plain_record(&a), .state = GOSSIP_MEMBER_ALIVE, .round = 41, .step = 164};
    struct member other = {.record = full_record(&b), .state = GOSSIP_MEMBER_ALIVE};
    struct gossip_membership m = {.self = &self, .now_ns = 5000000000ull};
    struct gossip_suspicion suspicion = {.subject = b.id,
                                         .suspector = a.id,
                                         .version = other.record.version,
                                         .class = GOSSIP_SUSPECTED_EVIDENCE};
    struct member_packet packet;
    gossip_suspicion_sign(&suspicion, &a);
    put_record(out, "plain_record", &self.record);
    put_record(out, "full_record", &other.record);
    member_recount(&m, &self);
    begin(out, "view");
    number(out, "hash_of_plain", m.view_hash);
    member_recount(&m, &other);
    number(out, "hash_of_both", m.view_hash);
    end(out);
    m.view_hash_ns = 3800000000ull;
    begin(out, "packets");
    member_packet_begin(&m, &packet, &other, PACKET_PING, 17, NULL, sizeof packet.bytes);
    assert_true(member_packet_record(&packet, &self) && member_packet_suspicion(&packet, &suspicion));
    put_packet(out, "ping_with_record_and_suspicion", &packet);
    member_packet_begin(&m, &packet, &other, PACKET_NACK, 18, &b.id, sizeof packet.bytes);
    put_packet(out, "nack", &packet);
    other.n_suspicions = 1;
    other.suspicions[0].told = suspicion;
    other.state = GOSSIP_MEMBER_DEAD;
    member_packet_begin(&m, &packet, &other, PACKET_SYNC_TELL, 0, NULL, sizeof packet.bytes);
    assert_true(member_packet_dead(&packet, &other));
    put_packet(out, "sync_tell_with_a_death", &packet);
    end(out);
}

// -- messages

static size_t message_bytes(const struct gossip_message *message, uint8_t *bytes, size_t capacity)
{
    struct gossip_payload payload[GOSSIP_MESSAGE_PAYLOADS];
    const size_t payloads = gossip_message_payloads(message, payload);
    size_t count;
    assert_int_equal(gossip_message_encode_header(message, bytes, capacity, &count), BASE_OK);
    for (size_t i = 0; i < payloads; i++) {
        assert_true(payload[i].count <= capacity - count);
        memcpy(bytes + count, payload[i].bytes, payload[i].count);
        count += payload[i].count;
    }
    return count;
}

static const uint8_t SOME[72] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

static const struct gossip_message messages[] = {
    {.kind = GOSSIP_GREETING,
     .as.greeting = {.version = "1.2.3",
                     .name = "node-a",
                     .model = "mlp 784-32-10, data 0123abcd, and a description of more than 31 bytes",
                     .schema = UINT64_MAX,
                     .parameters = 25450,
                     .instance_id = 1ull << 32,
                     .rules = "model.seed: 1; train.steps: 400",
                     .told = "",
                     .own = {127, 128},
                     .begun = 1,
                     .shard = 65536,
                     .seen = "127.0.0.1:7400"}},
    {.kind = GOSSIP_HELLO,
     .as.hello = {.epoch = 1,
                  .sequence = 255,
                  .reference_hash = 256,
                  .correction_hash = 65535,
                  .resync_offset = 65536,
                  .answer = 129,
                  .standing = GOSSIP_AWAY,
                  .scaling = UINT32_MAX}},
    {.kind = GOSSIP_XCHG,
     .as.exchange = {.epoch = 2,
                     .sequence = 3,
                     .clock = 100,
                     .standing = GOSSIP_PRESENT,
                     .step_scale = 0.2f,
                     .weight = 0.5f,
                     .limit = 0.75f,
                     .bound = 2,
                     .progress = 0.125f,
                     .pace_ns = 1000000,
                     .form = GOSSIP_DELTA_SPARSE,
                     .keys = 1,
                     .delta = SOME,
                     .delta_bytes = 7,
                     .moment = SOME + 7,
                     .moment_bytes = 2,
                     .news = SOME + 9,
                     .news_bytes = 4}},
    {.kind = GOSSIP_XACK,
     .as.exchange = {.epoch = 2,
                     .sequence = 0,
                     .clock = 100,
                     .standing = GOSSIP_FINISHED,
                     .weight = 0.5f,
                     .limit = INFINITY,
                     .bound = INFINITY,
                     .form = GOSSIP_DELTA_BLOCK,
                     .offset = 65536,
                     .delta = SOME,
                     .delta_bytes = 8}},
    {.kind = GOSSIP_BUSY, .as.busy = {2, 3}},
    {.kind = GOSSIP_BYE, .as.bye = {"leaving"}},
    {.kind = GOSSIP_MEMBERS, .as.members = {SOME, 31}},
    {.kind = GOSSIP_SNAPSHOT_ASK, .as.ask = {.snapshot = 5, .part = GOSSIP_PART_SECOND, .block = 6}},
    {.kind = GOSSIP_SNAPSHOT_TELL,
     .as.tell = {.snapshot = 5,
                 .parts = 5,
                 .part = GOSSIP_PART_MODEL,
                 .block = 6,
                 .round = 40,
                 .step = 160,
                 .hash = 1234567890123456789ull,
                 .values = SOME,
                 .values_bytes = 12}},
    {.kind = GOSSIP_PARKED, .as.parked = {2, 3, 99}},
    {.kind = GOSSIP_STATISTICS,
     .as.statistics =
         {.generation = 3, .rows = 1000, .columns = 1, .first = 0, .spreads = SOME, .spreads_bytes = 32}},
    {.kind = GOSSIP_MERGE,
     .as.merge = {.phase = GOSSIP_MERGE_HOLDS, .gives = 1, .hash = 42, .keys = SOME, .keys_bytes = 16}},
    {.kind = GOSSIP_RELAY,
     .as.relay = {.verb = GOSSIP_RELAY_OPEN, .stream = 1, .amount = 65536, .bytes = SOME, .bytes_bytes = 32}},
    {.kind = GOSSIP_REMOVED, .as.removed = {.list = SOME, .list_bytes = 72}},
};

static void write_messages(struct out *out)
{
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES + sizeof SOME];
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        begin(out, gossip_message_kind_name(messages[i].kind));
        hex(out, "bytes", bytes, message_bytes(&messages[i], bytes, sizeof bytes));
        end(out);
    }
}

// -- hashes

static void put_hash_bytes(struct out *out)
{
    static const char phrase[] = "seventeen bytes !";
    begin(out, "bytes");
    text(out, "data", phrase);
    number(out, "seed_0_of_0_bytes", base_hash_bytes(0, phrase, 0));
    number(out, "seed_1_of_8_bytes", base_hash_bytes(1, phrase, 8));
    number(out, "seed_2_of_17_bytes", base_hash_bytes(2, phrase, 17));
    end(out);
}

static void put_hash_vectors(struct out *out)
{
    static const float values[] = {0.0f, -0.0f, 1.0f, -1.5f, 3.0e38f, 1.0e-40f};
    static const uint32_t index[] = {0, 7, 8, 1000000};
    const size_t count = sizeof values / sizeof *values;
    begin(out, "vectors");
    floats(out, "values", values, count);
    number(out, "hash", base_hash_vector(values, count));
    number(out, "hash_of_magnitudes", cpu_kernels()->apply->hash(values, count, 0, true));
    number(out, "element_at_2_to_32", base_hash_element((size_t)1 << 32, 2.5f));
    numbers(out, "indices", index, 4);
    number(out, "hash_of_indices", compress_keys_hash(index, 4));
    end(out);
}

static uint64_t schema_of(const struct train_model_spec *spec)
{
    struct train_model *model = NULL;
    struct base_reason why;
    assert_int_equal(train_model_create(spec, cpu_kernels(), 1, &model, &why), BASE_OK);
    const uint64_t schema = train_model_schema(model);
    train_model_destroy(model);
    return schema;
}

static void put_schemas(struct out *out)
{
    const struct train_model_spec mlp = {
        .kind = TRAIN_MLP, .inputs = 784, .classes = 10, .hidden = {32}, .n_hidden = 1};
    struct train_model_spec regression = mlp;
    regression.loss = TRAIN_MSE;
    begin(out, "schemas");
    number(out, "kind_of_mlp", (uint64_t)TRAIN_MLP);
    number(out, "mlp_784_32_10", schema_of(&mlp));
    number(out, "loss_of_mse", (uint64_t)TRAIN_MSE);
    number(out, "mlp_784_32_10_mse", schema_of(&regression));
    end(out);
}

static void put_others(struct out *out)
{
    static const char lines[] = "a b\nb c 0.25\n";
    const struct gossip_identity identity = identity_of(1);
    static struct gossip_blob blob = {.bytes = 3, .data = {9, 8, 7}};
    struct topology_graph *graph;
    struct base_reason why;
    struct gossip_news news = {0};
    const struct gossip_report report = {.id = identity.id, .round = 95};
    uint8_t bytes[GOSSIP_NEWS_BYTES];
    assert_int_equal(topology_graph_read("graph", lines, sizeof lines - 1, NULL, 0, &graph, &why), BASE_OK);
    begin(out, "others");
    number(out, "graph_a_b_b_c", topology_graph_hash(graph));
    hex(out, "blob", blob.data, blob.bytes);
    number(out, "scaling_of_blob", gossip_blob_hash(&blob));
    number(out, "merge_key_of_generation_3_instance_4", gossip_merge_key(&identity.id, 3, 4));
    gossip_news_members(&news, &report, 1, 1);
    hex(out, "news_of_round_95_at_100", bytes, gossip_news_write(&news, 100, bytes));
    end(out);
    topology_graph_destroy(graph);
}

static void write_hashes(struct out *out)
{
    put_hash_bytes(out);
    put_hash_vectors(out);
    put_schemas(out);
    put_others(out);
}

// -- the codec

// Deterministic, of both signs, over a few orders of magnitude.
static float value_at(uint64_t seed, size_t i)
{
    const uint64_t bits = base_hash_mix(base_hash_mix(seed) + i);
    const float magnitude = (float)(uint32_t)(bits >> 40) * 0x1p-24f;
    return (bits & 1 ? -1.0f : 1.0f) * magnitude * magnitude * (bits & 2 ? 4.0f : 0.03125f);
}

struct packet_case {
    const char *name;
    enum kernels_format format;
    size_t count, entries, gap; // every `gap`th element, shifted by a hash
    bool known;
};

static const struct packet_case packet_cases[] = {
    {"fp32_bitmap", KERNELS_FP32, 200, 60, 3, false},
    {"fp16_rice", KERNELS_FP16, 5000, 70, 40, false},
    {"bf16_rice", KERNELS_BF16, 100000, 20, 4000, false},
    {"int8_rice", KERNELS_INT8, 20000, 300, 50, false},
    {"int8_all", KERNELS_INT8, 258, 258, 1, false},
    {"int8_same_keys", KERNELS_INT8, 5000, 20, 40, true},
    {"int4_rice", KERNELS_INT4, 20000, 261, 50, false},
    {"int2_rice", KERNELS_INT2, 20000, 258, 50, false},
    {"sign_rice", KERNELS_SIGN, 20000, 259, 50, false},
    {"fp32_empty", KERNELS_FP32, 100, 0, 1, false},
};

static void put_packet_case(struct out *out, const struct packet_case *c)
{
    struct compress_sparse entries;
    const size_t bound = compress_packet_bound(c->count, c->entries, c->format) + 8;
    uint8_t *packet = malloc(bound);
    size_t bytes;
    assert_non_null(packet);
    assert_int_equal(compress_sparse_create(c->entries + 1, &entries), BASE_OK);
    entries.count = c->entries;
    for (size_t i = 0; i < c->entries; i++) {
        entries.index[i] = (uint32_t)(i * c->gap + base_hash_mix(i) % c->gap);
        entries.value[i] = value_at(c->gap, i);
    }
    begin(out, c->name);
    number(out, "elements", c->count);
    number(out, "format", (uint64_t)c->format);
    numbers(out, "indices", entries.index, entries.count);
    floats(out, "values", entries.value, entries.count);
    const struct compress_keys known = {entries.index, entries.count,
                                        compress_keys_hash(entries.index, entries.count)};
    assert_int_equal(compress_packet_encode(cpu_kernels(), &entries, c->count, c->format,
                                            c->known ? &known : NULL, packet, bound, &bytes),
                     BASE_OK);
    hex(out, "packet", packet, bytes);
    floats(out, "decoded", entries.value, entries.count);
    end(out);
    compress_sparse_destroy(&entries);
    free(packet);
}

static void write_codec(struct out *out)
{
    float moments[20];
    uint8_t bytes[sizeof moments];
    size_t count;
    for (size_t i = 0; i < sizeof packet_cases / sizeof *packet_cases; i++)
        put_packet_case(out, &packet_cases[i]);
    for (size_t i = 0; i < 20; i++) {
        const float value = value_at(9, i);
        moments[i] = i % 7 ? value * value * value * value : 0.0f;
    }
    begin(out, "log8");
    floats(out, "values", moments, 20);
    assert_int_equal(compress_log8_encode(moments, 20, bytes, sizeof bytes, &count), BASE_OK);
    hex(out, "bytes", bytes, count);
    floats(out, "decoded", moments, 20);
    end(out);
}

// -- an edge: an exchange of two requests that cross, one that is answered, and a RESYNC because one end
// has forgotten the edge

#define EDGE_PARAMETERS 96u
#define EDGE_MESSAGES   64u

struct edge_log {
    struct out *out;
    unsigned messages;
};

static void log_messages(struct net *net, size_t node, const struct gossip_exchange_event *event,
                         const struct gossip_exchange_actions *actions)
{
    struct edge_log *log = net->watcher;
    uint8_t bytes[8192];
    char name[32];
    (void)event;
    for (size_t i = 0; i < actions->count; i++) {
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND)
            continue;
        assert_true(log->messages < EDGE_MESSAGES);
        snprintf(name, sizeof name, "%02u_%s_of_%zu", log->messages++,
                 gossip_message_kind_name(actions->list[i].message.kind), node);
        hex(log->out, name, bytes, message_bytes(&actions->list[i].message, bytes, sizeof bytes));
    }
}

static uint64_t hash_of(const float *fp32, const uint16_t *bf16, bool magnitudes)
{
    float values[EDGE_PARAMETERS];
    for (size_t i = 0; i < EDGE_PARAMETERS; i++)
        values[i] = bf16 ? bf16_widen(bf16[i]) : fp32[i];
    return cpu_kernels()->apply->hash(values, EDGE_PARAMETERS, 0, magnitudes);
}

static void put_ends(struct out *out, struct net *net, const char *name)
{
    struct gossip_edge_info edge;
    begin(out, name);
    for (size_t i = 0; i < 2; i++) {
        net_edge(net, i, 1 - i, &edge);
        number(out, i ? "hash_of_1" : "hash_of_0", hash_of(edge.reference, edge.reference_bf16, false));
        number(out, i ? "hash_of_correction_of_1" : "hash_of_correction_of_0",
               hash_of(edge.correction, edge.correction_bf16, true));
        number(out, i ? "sequence_of_1" : "sequence_of_0", edge.sequence);
        floats(out, i ? "model_of_1" : "model_of_0", gossip_exchange_model(net->node[i].exchange),
               EDGE_PARAMETERS);
    }
    end(out);
}

// One end asks and the other answers, or the requests of both cross.
static void play(struct out *out, struct net *net, const char *name, uint64_t round, bool crosses)
{
    struct edge_log log = {.out = out};
    net->watcher = &log;
    begin(out, name);
    net_round(net, 0, round);
    if (!crosses)
        net_settle(net, 1000000000);
    net_round(net, 1, round);
    net_settle(net, 1000000000);
    end(out);
}

static void forget(struct out *out, struct net *net, const char *name)
{
    struct edge_log log = {.out = out};
    net->watcher = &log;
    begin(out, name);
    net_unlink(net, 0, 1);
    net_tell(net, 1, GOSSIP_EXCHANGE_FORGET, 0);
    net_link(net, 0, 1);
    net_settle(net, 1000000000);
    end(out);
}

static void put_edge(struct out *out, bool bf16)
{
    const struct gossip_exchange_options options = {.ratio = 0.125f,
                                                    .values = KERNELS_INT8,
                                                    .drift_correction = true,
                                                    .drift_gain = 2,
                                                    .drift_limit = 0.25f,
                                                    .reference_bf16 = bf16,
                                                    .max_delay = 4,
                                                    .deadline_floor_ns = 1000000000ull,
                                                    .deadline_ceiling_ns = 10000000000ull};
    struct net *net = net_create(2, EDGE_PARAMETERS, TOPOLOGY_RING, 1, &options);
    struct edge_log log = {.out = out};
    net->watch = log_messages;
    net->watcher = &log;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < EDGE_PARAMETERS; j++)
            net->node[i].x[j] = value_at(100 + i, j);
    begin(out, "ends");
    for (size_t i = 0; i < 2; i++) {
        const struct gossip_id id = net_id(i);
        hex(out, i ? "id_of_1" : "id_of_0", id.bytes, sizeof id.bytes);
        floats(out, i ? "model_of_1" : "model_of_0", net->node[i].x, EDGE_PARAMETERS);
    }
    end(out);
    begin(out, "hello");
    net_link_all(net);
    end(out);
    play(out, net, "crossed", 1, true);
    put_ends(out, net, "after_crossed");
    play(out, net, "answered", 2, false);
    put_ends(out, net, "after_answered");
    forget(out, net, "resync");
    put_ends(out, net, "after_resync");
    net_destroy(net);
}

static void write_exchange(struct out *out)
{
    put_edge(out, false);
}

static void write_exchange_bf16(struct out *out)
{
    put_edge(out, true);
}

// -- files

struct file {
    const char *name;
    void (*write)(struct out *out);
};

static const struct file files[] = {
    {"keys", write_keys},
    {"streams", write_streams},
    {"datagrams", write_datagrams},
    {"membership", write_membership},
    {"messages", write_messages},
    {"hashes", write_hashes},
    {"codec", write_codec},
    {"exchange", write_exchange},
    {"exchange_bf16", write_exchange_bf16},
};
#define FILES (sizeof files / sizeof *files)

static char *written(const struct file *file, size_t *bytes)
{
    char *content = NULL;
    struct out out = {.file = open_memstream(&content, bytes)};
    assert_non_null(out.file);
    fputc('{', out.file);
    file->write(&out);
    fputs("\n}\n", out.file);
    assert_int_equal(fclose(out.file), 0);
    return content;
}

static void path_of(const struct file *file, const char *directory, char *path, size_t capacity)
{
    const int bytes = snprintf(path, capacity, "%s/%s.json", directory, file->name);
    assert_true(bytes > 0 && (size_t)bytes < capacity);
}

static void the_code_writes_these_bytes(void **state)
{
    const struct file *file = *state;
    char path[4096], *content;
    size_t bytes;
    path_of(file, P2PML_SOURCE_DIR "/test/interop/vectors", path, sizeof path);
    content = written(file, &bytes);
    char *known = calloc(1, bytes + 2);
    FILE *in = fopen(path, "rb");
    assert_true(known && in);
    const size_t read = fread(known, 1, bytes + 1, in);
    fclose(in);
    size_t at = 0, line = 1;
    while (at < bytes && at < read && known[at] == content[at])
        line += content[at++] == '\n';
    if (read != bytes || at < bytes)
        fail_msg("%s:%zu has other bytes than this code writes. If the protocol was to change: a new "
                 "number (gossip/wire/message.h), docs/PROTOCOL.md, and test_gossip_interop --write",
                 path, line);
    free(known);
    free(content);
}

static int write_all(const char *directory)
{
    char path[4096];
    for (size_t i = 0; i < FILES; i++) {
        size_t bytes;
        char *content = written(&files[i], &bytes);
        path_of(&files[i], directory, path, sizeof path);
        FILE *out = fopen(path, "wb");
        const bool failed = !out || fwrite(content, 1, bytes, out) != bytes;
        if (!out || fclose(out) != 0 || failed) {
            perror(path);
            return 1;
        }
        free(content);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FILES];
    if (sodium_init() < 0)
        return 1;
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_all(argv[2]);
    for (size_t i = 0; i < FILES; i++)
        tests[i] = (struct CMUnitTest){.name = files[i].name,
                                       .test_func = the_code_writes_these_bytes,
                                       .initial_state = (void *)(uintptr_t)&files[i]};
    return cmocka_run_group_tests_name("interop", tests, NULL, NULL);
}
