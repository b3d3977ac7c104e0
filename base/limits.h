// The bounds that several folders share, and the bounds of input from the network or from files. Sizes follow
// from these or from the model's schema; no memory is allocated for a number from the wire before that number
// has been checked against one of them.
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#define LIMIT_NODE_NAME_BYTES   64u          // node and cluster names, terminating zero included
#define LIMIT_PEERS             1024u        // entries of a peer list or of an allow-list; shards
#define LIMIT_HOST_BYTES        256u         // a DNS name, terminating zero included
#define LIMIT_LAYERS            32u          // hidden layers of an MLP
#define LIMIT_BLOCKS            64u          // layers of a decoder
#define LIMIT_ALPHABET_BYTES    8192u        // the different characters of a text, terminating zero included
#define LIMIT_TENSORS           4096u        // named tensors of a model
#define LIMIT_MODEL_TEXT_BYTES  200u         // "mlp 784-256-10", terminating zero included
#define LIMIT_TENSOR_NAME_BYTES 96u          // terminating zero included
#define LIMIT_PARAMETERS        (1u << 30)   // elements of the flat model vector
#define LIMIT_CLASSES           65536u       // labels of a data set
#define LIMIT_DATASET_VALUES    (1ull << 31) // dense feature values of a data set in memory
#define LIMIT_BATCH             65536u       // examples of one step
#define LIMIT_FILTERS           4u           // filters before the codec, one after another
#define LIMIT_TEXT_LINE_BYTES   (1u << 20)   // one line of a text data file
#define LIMIT_DATA_FILE_BYTES   (1ull << 33) // one data file, unpacked
#define LIMIT_COLUMNS           65536u       // of a table
#define LIMIT_CATEGORIES        4096u        // different words in one column of a table
#define LIMIT_IMAGE_FILE_BYTES  (64u << 20)  // one PNG or JPEG file
#define LIMIT_IMAGE_SIDE        16384u       // pixels of one side of an image
#define LIMIT_IMAGE_PIXELS      (1u << 26)   // of one image

#define LIMIT_RECORD_BYTES         65535u // one sealed record on a stream, tag included (Noise section 3)
#define LIMIT_SECRETS              4u     // of one cluster: lines of cluster.secret_file
#define LIMIT_REMOVED              64u    // members that the operator of a cluster has removed
#define LIMIT_HANDSHAKE_BYTES      256u   // one handshake message: all that an unknown peer may send
#define LIMIT_HANDSHAKE_NS         3000000000ull // time that an unknown peer has for the handshake
#define LIMIT_HALF_OPEN            64u           // accepted connections that are not in use yet
#define LIMIT_HALF_OPEN_ADDRESS    16u           // the same, from one address
#define LIMIT_MESSAGE_HEADER_BYTES 2048u         // msgpack header of one message
#define LIMIT_RULES_BYTES          768u // of a greeting: settings that all nodes share, terminating zero included
#define LIMIT_TOLD_BYTES           768u // of a greeting: settings that new nodes get, terminating zero included
#define LIMIT_PROMPT_BYTES         17408u // a message that overtakes larger ones: LIMIT_GOSSIP_BYTES and a header
#define LIMIT_RESYNC_BLOCK         65536u // elements of one RESYNC block (256 KiB as fp32)
#define LIMIT_REKEY_RECORDS        65536u // records under one key (Noise section 11.3)
#define LIMIT_MEMBERS              4096u  // known to one node, dead and left ones included
#define LIMIT_NEIGHBOURS           64u    // of a node in the graph; a butterfly of 1,024 has 10
#define LIMIT_ADDRESSES            4u     // of one member
#define LIMIT_DATAGRAM_BYTES       1200u  // sealed: fits any path that carries IPv6
#define LIMIT_DATAGRAM_OVERHEAD    48u    // of sealing: tag of the pair, nonce, Poly1305
#define LIMIT_GOSSIP_BYTES         16384u // one membership packet on a stream
#define LIMIT_SNAPSHOT_BLOCK       4096u // elements of one block of a snapshot (16 KiB as fp32: 2 s at 64 kbit/s)
#define LIMIT_BLOB_BYTES           65536u // of a program's own data, sent with the model in a snapshot
#define LIMIT_STATE_VECTORS        64u   // a program's state in a checkpoint, in model sizes, beyond one blob
#define LIMIT_STATISTICS_COLUMNS   5460u // features and targets whose scaling a cluster agrees on: fits a blob
#define LIMIT_MAILBOX              1024u // messages waiting between two threads

#define LIMIT_CONFIG_BYTES            (1u << 20) // one configuration file
#define LIMIT_CHECKPOINT_HEADER_BYTES (1u << 24) // JSON header of a safetensors file
#define LIMIT_MEANING_BYTES           (1u << 23) // of that: meaning of the data (node/store/meaning_text.h)
#define LIMIT_LINE_FILES              1000u      // of metrics.jsonl, and of events.jsonl
#define LIMIT_HTTP_REQUEST_BYTES      8192u      // one HTTP request, headers included

#endif
