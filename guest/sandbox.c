/*
 * Mote's init as PID 1 of a gVisor sandbox. The sandbox already has its root, devices and network; what is missing is
 * the pair of ports to the host. A sandbox inherits only its standard streams, so one child carries both ports over
 * them, in frames.
 */
#include "mote.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * A frame is one byte for the port, two for the length (little-endian), and the data. Frames of the host fit into
 * PIPE_BUF, so that each is written as a whole: a host that died while it wrote leaves no half frame behind. The host
 * begins with a SYNC frame whose data it expects back after a NUL and "sync ": everything before that belongs to its
 * predecessor. Frames to the host may therefore be longer than the pipe writes at once.
 */
enum { SYNC = 2, HEADER = 3, DATA_MAX = 4096 - HEADER, OUT_MAX = 1 << 15, BATCH = 8, ROOM = 1 << 20 };

static int given;
static pid_t carrier;

void sandbox_enter(const char *config_file) {
  given = open(config_file, O_RDONLY | O_CLOEXEC);
  if (given < 0) fatal(config_file);
  /*
   * runsc covers an empty /tmp with a file system in memory. Here files of /tmp are on the disk of the VM, as under the
   * other hypervisors, so that they count against its size and not against the memory, whose end ends the VM.
   */
  if (umount2("/tmp", MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT) fatal("/tmp");
  if (mkdir("/tmp", 01777) < 0 && errno != EEXIST) fatal("/tmp");
}

int sandbox_config(void) {
  return given;
}

static void end(void) {
  _exit(0);
}

static void write_all(int fd, const char *data, size_t length) {
  while (length) {
    ssize_t n = write(fd, data, length);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      struct pollfd room = {.fd = fd, .events = POLLOUT};
      poll(&room, 1, -1);
      continue;
    }
    if (n <= 0) end();
    data += n, length -= (size_t)n;
  }
}

/* Data of frames for one port that follow each other is written together. */
static void take_frames(const int *ports) {
  static char buffer[1 << 16];
  static size_t used;
  ssize_t n = read(0, buffer + used, sizeof buffer - used);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) end();
  used += (size_t)n;
  size_t at = 0, joined = 0;
  char *data = buffer;
  unsigned char port = SYNC;
  while (used - at >= HEADER) {
    unsigned char *header = (unsigned char *)buffer + at;
    size_t length = header[1] | (size_t)header[2] << 8;
    if (length > DATA_MAX) end();
    if (used - at < HEADER + length) break;
    if (header[0] != port && port < SYNC) write_all(ports[port], data, joined);
    if (header[0] != port) port = header[0], data = buffer + at + HEADER, joined = 0;
    if (port == SYNC) write_all(1, "\0sync ", 6), write_all(1, buffer + at + HEADER, length);
    else if (port < SYNC) memmove(data + joined, buffer + at + HEADER, length), joined += length;
    at += HEADER + length;
  }
  if (port < SYNC) write_all(ports[port], data, joined);
  used -= at;
  memmove(buffer, buffer + at, used);
}

/* Passes on what there is in several frames, with one call for each direction. */
static void give_frames(int port, int which) {
  static char bytes[BATCH * (HEADER + OUT_MAX)];
  struct iovec parts[BATCH];
  for (int i = 0; i < BATCH; i++) parts[i] = (struct iovec){bytes + i * (HEADER + OUT_MAX) + HEADER, OUT_MAX};
  ssize_t n = readv(port, parts, BATCH);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) end();
  size_t rest = (size_t)n, used = 0;
  for (int i = 0; rest; i++) {
    size_t length = rest < OUT_MAX ? rest : OUT_MAX;
    char *frame = bytes + i * (HEADER + OUT_MAX);
    frame[0] = (char)which, frame[1] = (char)(length & 0xff), frame[2] = (char)(length >> 8);
    used += HEADER + length, rest -= length;
  }
  write_all(1, bytes, used);
}

/*
 * The carrier is a separate program: after a fork, gVisor copies 2 MiB of init's memory with the first byte that either
 * process writes.
 */
void sandbox_carry(char **numbers) {
  int ports[] = {atoi(numbers[0]), atoi(numbers[1])};
  struct pollfd polled[] = {{.fd = 0, .events = POLLIN}, {.fd = ports[0], .events = POLLIN}, {.fd = ports[1], .events = POLLIN}};
  for (;;) {
    if (poll(polled, 3, -1) < 0 && errno != EINTR) end();
    if (polled[0].revents) take_frames(ports);
    for (int which = 0; which < 2; which++)
      if (polled[1 + which].revents) give_frames(ports[which], which);
  }
}

/* Stores the non-blocking ends of both ports: control, then log. */
void sandbox_ports(int mine[2]) {
  int theirs[2];
  for (int which = 0; which < 2; which++) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) fatal("port");
    int room = ROOM;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    fcntl(pair[1], F_SETFD, 0);
    mine[which] = pair[0], theirs[which] = pair[1];
  }
  char numbers[2][12];
  for (int which = 0; which < 2; which++) snprintf(numbers[which], sizeof numbers[which], "%d", theirs[which]);
  char *argv[] = {"init", "carry", numbers[0], numbers[1], NULL}, *none[] = {NULL};
  if ((errno = posix_spawn(&carrier, "/proc/self/exe", NULL, NULL, argv, none))) fatal("carrier");
  close(theirs[0]), close(theirs[1]);
  /* Only the carrier holds the streams: when it ends, the host sees the end of its pipe. */
  int null = open("/dev/null", O_RDWR);
  dup2(null, 0), dup2(null, 1);
  if (null > 2) close(null);
}

/* Without its carrier the guest cannot be reached, so it ends. */
int sandbox_reaped(pid_t pid) {
  return carrier && pid == carrier;
}

/* `<path in the sandbox> <mount point>`: the host has mounted the volume at the path. Idempotent. */
void sandbox_bind(const struct config *config, const char *id, char *text) {
  char *rest = NULL, *from = strtok_r(text, " ", &rest), *at = strtok_r(NULL, " ", &rest);
  struct stat volume, there;
  if (!from || !at) {
    control_say("%s err bind needs two paths\n", id);
    return;
  }
  decode(from), decode(at);
  make_path(at);
  if (stat(from, &volume) == 0 && stat(at, &there) == 0 && volume.st_dev == there.st_dev && volume.st_ino == there.st_ino) {
    control_say("%s ok\n", id);
    return;
  }
  if (mount(from, at, NULL, MS_BIND, NULL) < 0) {
    control_say("%s err %s: %s\n", id, at, strerror(errno));
    return;
  }
  give_to_workload(config, at);
  control_say("%s ok\n", id);
}

/* Idempotent: a mount point without a volume is an error of no kind. */
void sandbox_unbind(const char *id, char *text) {
  decode(text);
  if (umount2(text, 0) < 0 && errno != EINVAL && errno != ENOENT) control_say("%s err %s: %s\n", id, text, strerror(errno));
  else control_say("%s ok\n", id);
}
