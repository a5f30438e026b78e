/*
 * The two ports to the host: outgoing log lines (kept until the host acknowledges them), and control lines in both
 * directions.
 */
#include "mote.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RING = 1 << 19, LINE_MAX_BYTES = 8192, OUT_MAX = 32768, HEADER_MAX = 96 };

struct record {
  uint64_t seq, at_us;
  uint32_t length;
  uint8_t stream;
};

/* Records between `oldest` and `tail`; everything before `next` has been written to the port at least once. */
static char ring[RING];
static uint64_t oldest, next, tail, last_seq;
static char out[OUT_MAX];
static size_t out_used, out_sent;
static char partial[4][LINE_MAX_BYTES];
static size_t partial_used[4];
static int log_port = -1, control_port = -1;
static int subscribed; /* nothing is sent before a host has requested a start position */

uint64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int open_port(const char *wanted) {
  for (int attempt = 0; attempt < 2000; attempt++, usleep(1000)) {
    DIR *dir = opendir("/sys/class/virtio-ports");
    if (!dir) continue;
    for (struct dirent *entry; (entry = readdir(dir));) {
      char path[300], name[64] = "";
      snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
      int fd = open(path, O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;
      ssize_t n = read(fd, name, sizeof name - 1);
      close(fd);
      if (n <= 0 || strncmp(name, wanted, strlen(wanted))) continue;
      snprintf(path, sizeof path, "/dev/%s", entry->d_name);
      fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
      if (fd < 0) continue;
      closedir(dir);
      return fd;
    }
    closedir(dir);
  }
  errno = ENODEV;
  fatal(wanted);
  return -1;
}

/* Privileged ports, so that only a workload that runs as root could take them. */
enum { CONTROL_VSOCK = 1001, LOG_VSOCK = 1002 };
static int listeners[2] = {-1, -1};

void ports_open(const struct config *config) {
  if (sandbox_config()) {
    int ports[2];
    sandbox_ports(ports);
    control_port = ports[0], log_port = ports[1];
    return;
  }
  if (config->vsock) {
    load_vsock_modules();
    listeners[0] = vsock_listen(CONTROL_VSOCK);
    listeners[1] = vsock_listen(LOG_VSOCK);
    return;
  }
  log_port = open_port("mote.log");
  control_port = open_port("mote.ctl");
}

/* -1 with virtio-serial, whose ports are always open. */
int port_listeners(int which) { return listeners[which]; }

/* A new connection replaces the previous one, which belonged to a stopped agent or was cut by a snapshot. */
int port_accept(int listener) {
  int *port = listener == listeners[0] ? &control_port : &log_port;
  int fd = vsock_accept(listener);
  if (fd < 0) return -1;
  if (*port >= 0) close(*port);
  *port = fd;
  if (port == &log_port) subscribed = 0;
  return fd;
}
int log_fd(void) { return log_port; }
int control_fd(void) { return control_port; }

static void ring_get(uint64_t at, void *to, size_t length) {
  for (size_t i = 0; i < length; i++) ((char *)to)[i] = ring[(at + i) % RING];
}
static void ring_put(const void *from, size_t length) {
  for (size_t i = 0; i < length; i++) ring[(tail + i) % RING] = ((const char *)from)[i];
  tail += length;
}
static void drop_oldest(void) {
  struct record record;
  ring_get(oldest, &record, sizeof record);
  uint64_t end = oldest + sizeof record + record.length;
  if (next < end) next = end; /* never sent: the host detects the gap in the sequence and counts it */
  oldest = end;
}

void log_line(enum stream stream, const char *data, size_t length) {
  struct record record = {.seq = ++last_seq, .at_us = now_us(), .length = (uint32_t)length, .stream = stream};
  while (tail - oldest + sizeof record + length > RING) drop_oldest();
  ring_put(&record, sizeof record);
  ring_put(data, length);
}

void log_end(enum stream stream) {
  if (partial_used[stream]) log_line(stream, partial[stream], partial_used[stream]);
  partial_used[stream] = 0;
}

void log_bytes(enum stream stream, const char *data, size_t length) {
  while (length) {
    const char *newline = memchr(data, '\n', length);
    size_t take = newline ? (size_t)(newline - data) : length;
    size_t room = LINE_MAX_BYTES - partial_used[stream];
    if (take > room) take = room, newline = NULL;
    memcpy(partial[stream] + partial_used[stream], data, take);
    partial_used[stream] += take;
    if (newline && !partial_used[stream]) log_line(stream, "", 0);
    else if (newline || partial_used[stream] == LINE_MAX_BYTES) log_end(stream);
    data += take + (newline ? 1 : 0);
    length -= take + (newline ? 1 : 0);
  }
}

/* Frame: `L <seq> <at_us> <stream> <length>\n<bytes>\n`. */
static void fill_out(void) {
  while (next < tail) {
    struct record record;
    ring_get(next, &record, sizeof record);
    if (out_used + HEADER_MAX + record.length + 1 > OUT_MAX) return;
    out_used += (size_t)snprintf(out + out_used, HEADER_MAX, "L %" PRIu64 " %" PRIu64 " %d %" PRIu32 "\n", record.seq,
                                 record.at_us, record.stream, record.length);
    ring_get(next + sizeof record, out + out_used, record.length);
    out_used += record.length;
    out[out_used++] = '\n';
    next += sizeof record + record.length;
  }
}

void log_pump(void) {
  while (subscribed) {
    if (out_sent == out_used) {
      out_sent = out_used = 0;
      fill_out();
      if (!out_used) return;
    }
    ssize_t n = write(log_port, out + out_sent, out_used - out_sent);
    if (n <= 0) return; /* edge-triggered: epoll reports when there is room again */
    out_sent += (size_t)n;
  }
}

static void forget_until(uint64_t seq) {
  while (oldest < tail) {
    struct record record;
    ring_get(oldest, &record, sizeof record);
    if (record.seq > seq || oldest >= next) return;
    oldest += sizeof record + record.length;
  }
}

/*
 * Host -> guest: `from <seq> <nonce>` (once per connection), `ack <seq>`. Answer to `from`: `H <nonce> <now_us>
 * <last_seq>`.
 */
static void on_log_line(char *line) {
  uint64_t seq;
  char nonce[40];
  if (sscanf(line, "ack %" SCNu64, &seq) == 1) forget_until(seq);
  else if (sscanf(line, "from %" SCNu64 " %39s", &seq, nonce) == 2) {
    next = tail;
    forget_until(seq);
    next = oldest;
    out_sent = 0;
    out_used = (size_t)snprintf(out, OUT_MAX, "\nH %s %" PRIu64 " %" PRIu64 "\n", nonce, now_us(), last_seq);
    subscribed = 1;
    log_pump();
  }
}

const char *line_end;

/*
 * Calls on_line for every complete line. An end of file means "no host" and keeps the buffer: the kernel may deliver
 * the first bytes of a new connection before it reports the host as connected, and clearing the buffer would lose them.
 * Hosts begin with a newline, which ends a partial line of the previous host.
 */
static void read_lines(int fd, char *buffer, size_t size, size_t *used, void (*on_line)(char *line)) {
  for (;;) {
    ssize_t n = read(fd, buffer + *used, size - 1 - *used);
    if (n <= 0) return;
    /* What arrived before has no newline: a long line is searched once. */
    char *line = buffer, *fresh = buffer + *used;
    *used += (size_t)n;
    buffer[*used] = 0;
    for (char *end; (end = memchr(fresh, '\n', *used - (size_t)(fresh - buffer))); fresh = line = end + 1)
      *end = 0, line_end = end, on_line(line);
    *used -= (size_t)(line - buffer);
    memmove(buffer, line, *used);
    if (*used == size - 1) *used = 0;
  }
}

void log_read(void) {
  static char buffer[512];
  static size_t used;
  read_lines(log_port, buffer, sizeof buffer, &used, on_log_line);
}

/* Answers that the port has not taken yet. */
static char replies[1 << 18];
static size_t replies_from, replies_to;

size_t control_room(void) {
  return sizeof replies - (replies_to - replies_from);
}

/* Space after the answers, or NULL. */
char *control_space(size_t wanted) {
  if (sizeof replies - replies_to < wanted) {
    memmove(replies, replies + replies_from, replies_to - replies_from);
    replies_to -= replies_from, replies_from = 0;
  }
  return sizeof replies - replies_to < wanted ? NULL : replies + replies_to;
}

void control_add(size_t length) {
  replies_to += length;
  control_pump();
}

void control_say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *space = length < 0 ? NULL : control_space((size_t)length + 1);
  if (!space) return;
  va_start(arguments, format);
  vsnprintf(space, (size_t)length + 1, format, arguments);
  va_end(arguments);
  control_add((size_t)length);
}

void control_pump(void) {
  while (replies_from < replies_to) {
    ssize_t n = write(control_port, replies + replies_from, replies_to - replies_from);
    if (n <= 0) return;
    replies_from += (size_t)n;
  }
  replies_from = replies_to = 0;
}

/* Answers for a disconnected host go to the next one, which recognizes its own requests by their ids. */
void control_read(void (*on_line)(char *line)) {
  static char buffer[1 << 17];
  static size_t used;
  read_lines(control_port, buffer, sizeof buffer, &used, on_line);
}
