// Private to compress/: shared by the writer and the reader of packets.
#ifndef COMPRESS_PACKET_HEADER_H
#define COMPRESS_PACKET_HEADER_H

#include "compress/indices.h"

#define PACKET_HEADER_BYTES 6u

extern const struct indices_code *const packet_codes[INDICES_KINDS];

#endif
