/*
 * A minimal client for the server in the same VM: psql takes an emulated guest 0.3 to 0.8 s to load, this 10 ms. Uses
 * PostgreSQL's protocol 3.0 (documentation, chapter "Frontend/Backend Protocol") over its unix socket, with peer
 * authentication.
 *
 *   mote-pg wait                                        until the server accepts clients
 *   mote-pg ask <user> <database> <statement> [name=value]...   first column of each row; session settings
 *   mote-ready [ms]                                     whether the owner is answered within this time
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>

#define SERVER "/run/postgresql/.s.PGSQL.5432"
#define SETTLED "/run/postgresql/ready"
#define STATUS "/data/pgdata/postmaster.pid"
enum { PROTOCOL = 196608, MESSAGE_MAX = 1 << 16, LOOK_MS = 5, AGAIN_MS = 100 };

static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Reads the last line of postmaster.pid, because every connection attempt makes a starting server fork a process. */
static int takes_clients(void) {
  char text[1024];
  int fd = open(STATUS, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  return strstr(text, "\nready") != NULL;
}

static int put_all(int fd, const char *data, size_t length) {
  for (ssize_t n; length; data += n, length -= (size_t)n)
    if ((n = write(fd, data, length)) <= 0) return -1;
  return 0;
}

static int get_all(int fd, char *data, size_t length) {
  for (ssize_t n; length; data += n, length -= (size_t)n)
    if ((n = read(fd, data, length)) <= 0) return -1;
  return 0;
}

static char message[MESSAGE_MAX];

static size_t put_text(size_t used, const char *text) {
  size_t length = strlen(text) + 1;
  if (used + length > sizeof message) exit(2);
  memcpy(message + used, text, length);
  return used + length;
}

/* A message begins with its type (except the first one of a connection) and its length without the type. */
static int send_message(int fd, char kind, size_t used) {
  uint32_t length = htonl((uint32_t)used - 1);
  message[0] = kind;
  memcpy(message + 1, &length, 4);
  return kind ? put_all(fd, message, used) : put_all(fd, message + 1, used - 1);
}

static uint32_t number_at(size_t at) {
  uint32_t value;
  memcpy(&value, message + at, 4);
  return ntohl(value);
}

static void say_error(size_t length) {
  for (size_t at = 0; at < length && message[at]; at += strlen(message + at) + 1)
    if (message[at] == 'M') fprintf(stderr, "%s\n", message + at + 1);
}

/* Reads until the server is ready for the next statement. Returns 0, or -1 on an error or disconnect. */
static int until_ready(int fd, FILE *rows) {
  int result = 0;
  for (;;) {
    char head[5];
    uint32_t length;
    if (get_all(fd, head, sizeof head) < 0) return -1;
    memcpy(&length, head + 1, 4);
    length = ntohl(length) - 4;
    if (length >= sizeof message || get_all(fd, message, length) < 0) return -1;
    message[length] = 0;
    if (head[0] == 'Z') return result;
    if (head[0] == 'E') say_error(length), result = -1;
    if (head[0] == 'R' && number_at(0) != 0) return -1;
    if (head[0] == 'D' && rows && length >= 6 && (int32_t)number_at(2) >= 0)
      fprintf(rows, "%.*s\n", (int)number_at(2), message + 6);
  }
}

static int sign_in(const char *user, const char *database, char *const *settings) {
  struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = SERVER};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
    fprintf(stderr, "no server: %s\n", strerror(errno));
    return -1;
  }
  uint32_t protocol = htonl(PROTOCOL);
  memcpy(message + 5, &protocol, 4);
  size_t used = put_text(put_text(9, "user"), user);
  used = put_text(put_text(used, "database"), database);
  for (; *settings; settings++) {
    char *value = strchr(*settings, '=');
    if (!value) exit(2);
    *value++ = 0;
    used = put_text(put_text(used, *settings), value);
  }
  used = put_text(used, "");
  return send_message(fd, 0, used) == 0 && until_ready(fd, NULL) == 0 ? fd : -1;
}

static int ask(const char *user, const char *database, const char *statement, char *const *settings, FILE *rows) {
  int fd = sign_in(user, database, settings);
  int result = fd >= 0 && send_message(fd, 'Q', put_text(5, statement)) == 0 ? until_ready(fd, rows) : -1;
  if (fd >= 0) close(fd);
  return result;
}

static int owner_is_answered(void) {
  static char *const none[] = {NULL};
  const char *database = getenv("MOTE_DATABASE");
  return access(SETTLED, F_OK) == 0 && ask("mote", database ? database : "app", "SELECT 1", none, NULL) == 0;
}

static int ready(long wait_ms) {
  long long until = now_ms() + wait_ms;
  for (;;) {
    while (access(SETTLED, F_OK) < 0 && now_ms() < until) pause_ms(LOOK_MS);
    if (owner_is_answered()) return 0;
    if (now_ms() >= until) return 1;
    pause_ms(AGAIN_MS);
  }
}

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/');
  if (!strcmp(slash ? slash + 1 : argv[0], "mote-ready")) return ready(argc > 1 ? atol(argv[1]) : 0);
  if (argc == 2 && !strcmp(argv[1], "wait")) {
    while (!takes_clients()) pause_ms(LOOK_MS);
    return 0;
  }
  if (argc >= 5 && !strcmp(argv[1], "ask")) return ask(argv[2], argv[3], argv[4], argv + 5, stdout) < 0;
  fprintf(stderr, "mote-pg wait | ask <user> <database> <statement> [name=value]...\n");
  return 2;
}
