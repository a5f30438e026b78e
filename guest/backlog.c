/* The retained output of a session: a ring whose bytes are numbered from the start of the process. */
#include "mote.h"
#include <string.h>
#include <sys/sysinfo.h>

/* Bytes beyond BACKLOG_MAX that all rings together have. */
static size_t grown;

int backlog_open(struct backlog *backlog) {
  backlog->ring = malloc(backlog->size = BACKLOG_MAX);
  return backlog->ring ? 0 : -1;
}

void backlog_close(struct backlog *backlog) {
  if (backlog->ring) grown -= backlog->size - BACKLOG_MAX;
  free(backlog->ring);
  backlog->ring = NULL;
}

/* Bytes that fit without overwriting output that the host has not acknowledged. */
size_t backlog_room(const struct backlog *backlog, int held) {
  return held ? backlog->size - (size_t)(backlog->tail - backlog->acked) : backlog->size;
}

/* Where the next bytes go, and how many of them at most. */
char *backlog_space(const struct backlog *backlog, int held, size_t *length) {
  size_t at = backlog->tail % backlog->size, room = backlog_room(backlog, held);
  *length = room < backlog->size - at ? room : backlog->size - at;
  return backlog->ring + at;
}

/* Counts bytes that were put there. Overwrites the oldest ones. */
void backlog_add(struct backlog *backlog, size_t length) {
  backlog->tail += length;
  if (backlog->tail - backlog->oldest > backlog->size) backlog->oldest = backlog->tail - backlog->size;
}

static void copy(const struct backlog *backlog, uint64_t from, char *to, size_t length) {
  size_t at = from % backlog->size, first = backlog->size - at < length ? backlog->size - at : length;
  memcpy(to, backlog->ring + at, first);
  memcpy(to + first, backlog->ring, length - first);
}

/* Doubles a ring that is full, if the host's window and the memory of the guest allow. */
void backlog_grow(struct backlog *backlog, uint64_t window) {
  struct sysinfo info;
  size_t size = 2 * backlog->size;
  if (size > window || size > WINDOW_MAX || sysinfo(&info) < 0) return;
  uint64_t most = (uint64_t)info.totalram * info.mem_unit / 16;
  if (grown + backlog->size > (most < GROWN_MAX ? most : GROWN_MAX)) return;
  char *ring = malloc(size);
  if (!ring) return;
  /* Both halves have each byte at the place that its number has in the larger ring. */
  for (uint64_t from = backlog->oldest, to; from < backlog->tail; from = to) {
    to = from + size - from % size < backlog->tail ? from + size - from % size : backlog->tail;
    copy(backlog, from, ring + from % size, (size_t)(to - from));
  }
  grown += backlog->size;
  free(backlog->ring);
  backlog->ring = ring, backlog->size = size;
}

/* Copies the next bytes that the host's window admits, and returns their number. */
size_t backlog_next(const struct backlog *backlog, uint64_t window, char *to, size_t most) {
  uint64_t limit = backlog->acked + window < backlog->tail ? backlog->acked + window : backlog->tail;
  size_t length = limit > backlog->sent ? (size_t)(limit - backlog->sent) : 0;
  if (length > most) length = most;
  copy(backlog, backlog->sent, to, length);
  return length;
}

/* Sends from this offset, or from the oldest retained byte. Returns -1 for an offset that does not exist yet. */
int backlog_seek(struct backlog *backlog, uint64_t from) {
  if (from > backlog->tail) return -1;
  backlog->sent = backlog->acked = from < backlog->oldest ? backlog->oldest : from;
  return 0;
}

void backlog_ack(struct backlog *backlog, uint64_t until) {
  if (until > backlog->acked && until <= backlog->sent) backlog->acked = until;
}
