/* A session that is a connection to a TCP port or a socket (unix(7)) of this guest. A separate process moves the bytes, so that the rest of a
 * session works as for any program. */
#include "mote.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* One direction. `done`: the end was passed on. */
struct half {
  int from, to, ended, done;
  size_t at, length;
  char bytes[1 << 14];
};

/* Programs listen on all addresses, or on loopback only, or on the address of the guest. */
static int connect_to(const struct config *config, int port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_loopback};
  char own[64] = "";
  if (config->ip) snprintf(own, sizeof own, "%s", config->ip), own[strcspn(own, "/")] = 0;
  const char *addresses[] = {"127.0.0.1", "", own};
  for (int i = 0; i < 3; i++) {
    int is_v6 = i == 1;
    if (!is_v6 && inet_pton(AF_INET, addresses[i], &v4.sin_addr) != 1) continue;
    int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *to = is_v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    if (fd >= 0 && connect(fd, to, is_v6 ? sizeof v6 : sizeof v4) == 0) return fd;
    if (fd >= 0) close(fd);
  }
  return -1;
}

static int connect_socket(const char *path) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof to.sun_path) return -1;
  strcpy(to.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static void pass(struct half *half) {
  if (half->length == 0 && !half->ended) {
    ssize_t got = read(half->from, half->bytes, sizeof half->bytes);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) half->ended = 1;
    if (got > 0) half->at = 0, half->length = (size_t)got;
  }
  if (half->length > 0) {
    ssize_t put = write(half->to, half->bytes + half->at, half->length);
    if (put < 0 && errno != EAGAIN && errno != EINTR) half->ended = half->done = 1, half->length = 0;
    if (put > 0) half->at += (size_t)put, half->length -= (size_t)put;
  }
  if (half->ended && half->length == 0 && !half->done) {
    half->done = 1;
    shutdown(half->to, SHUT_WR);
  }
}

/* Ends with the answers of the server: what it would still receive is of no use to the client. */
static void relay(int fd) {
  static struct half up, down;
  up.from = 0, up.to = down.from = fd, down.to = 1;
  int fds[] = {0, 1, fd};
  for (int i = 0; i < 3; i++) fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
  while (!down.done) {
    struct pollfd waits[] = {
      {.fd = up.length || up.ended ? -1 : 0, .events = POLLIN},
      {.fd = up.length ? fd : -1, .events = POLLOUT},
      {.fd = down.length || down.ended ? -1 : fd, .events = POLLIN},
      {.fd = down.length ? 1 : -1, .events = POLLOUT},
    };
    if (poll(waits, 4, -1) < 0 && errno != EINTR) return;
    if (waits[0].revents || waits[1].revents) pass(&up);
    if (waits[2].revents || waits[3].revents) pass(&down);
  }
}

/* To the socket, or to the port if that is NULL. */
pid_t spawn_relay(const struct config *config, int port, const char *path, const int stdio[3]) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  setsid();
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < 3; i++)
    if (stdio[i] >= 0) dup2(stdio[i], i);
  if (stdio[0] < 0) close(0);
  /* Nothing is executed, so the other descriptors of init do not close by themselves. */
  for (int fd = 3; fd < 1024; fd++) close(fd);
  int fd = path ? connect_socket(path) : connect_to(config, port);
  if (fd < 0 && path) dprintf(2, "nothing listens on %s\n", path), _exit(1);
  if (fd < 0) dprintf(2, "nothing listens on port %d\n", port), _exit(1);
  if (setgid(65534) < 0 || setuid(65534) < 0) _exit(1);
  relay(fd);
  _exit(0);
}
