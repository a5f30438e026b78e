/*
 * Uses as many resources of the host as a guest can, for a benchmark: `abuse <kind> <seconds>`. Sends packets only to
 * 198.51.100.0/24, which is reserved for documentation (RFC 5737) and whose packets the benchmark drops.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in target(uint32_t n) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1 + n % 65000)};
  to.sin_addr.s_addr = htonl((198u << 24 | 51u << 16 | 100u << 8) + 4 + n / 65000 % 250);
  return to;
}

/* The host tracks each datagram as a separate connection. */
static void udp(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  for (uint32_t n = 0;; n++) {
    struct sockaddr_in to = target(n);
    sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
  }
}

static void syn(void) {
  enum { OPEN = 256 };
  int open_fds[OPEN];
  memset(open_fds, -1, sizeof open_fds);
  for (uint32_t n = 0;; n++) {
    int *fd = open_fds + n % OPEN;
    if (*fd >= 0) close(*fd);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = target(n);
    if (*fd >= 0) connect(*fd, (struct sockaddr *)&to, sizeof to);
  }
}

/* Queries names of the private network, which the host answers without an upstream resolver. */
static void dns(void) {
  char line[256], address[64] = "";
  FILE *conf = fopen("/etc/resolv.conf", "r");
  while (conf && fgets(line, sizeof line, conf)) sscanf(line, "nameserver %63s", address);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) return;
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  for (uint32_t n = 0;; n++) {
    unsigned char query[64] = {n >> 8, n, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    int used = 12 + sprintf((char *)query + 12, "%cx%07x%cinternal", 8, n & 0xfffffff, 8) + 1;
    memcpy(query + used, "\0\x1c\0\x01", 4);
    sendto(fd, query, used + 4, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
  }
}

static void broadcast(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = INADDR_BROADCAST};
  for (;;) sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
}

/* Opens the standard output of the app, that is, of the first process named httpd. */
static int log_of_app(void) {
  DIR *proc = opendir("/proc");
  for (struct dirent *entry; proc && (entry = readdir(proc));) {
    char path[300], name[32] = "";
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
    FILE *comm = fopen(path, "r");
    if (comm && fgets(name, sizeof name, comm) && strncmp(name, "httpd", 5) == 0) {
      snprintf(path, sizeof path, "/proc/%s/fd/1", entry->d_name);
      return open(path, O_WRONLY);
    }
    if (comm) fclose(comm);
  }
  return -1;
}

static void flood(int fd) {
  char lines[4096];
  for (size_t i = 0; i < sizeof lines; i++) lines[i] = i % 8 == 7 ? '\n' : 'x';
  while (fd >= 0 && (write(fd, lines, sizeof lines) > 0 || errno == EINTR || errno == EAGAIN));
}

static void lines(void) { flood(log_of_app()); }

static void console(void) { flood(open("/dev/ttyS0", O_WRONLY | O_NOCTTY)); }

static void disk(void) {
  static char block[65536];
  int fd = open("/tmp/abuse", O_RDWR | O_CREAT, 0600);
  for (uint32_t n = 0; fd >= 0; n++) {
    memset(block, n, sizeof block);
    if (pwrite(fd, block, sizeof block, (off_t)(n % 256) * (off_t)sizeof block) < 0) return;
    fsync(fd);
  }
}

static void forks(void) {
  for (int running = 0;;) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    running += pid > 0;
    while (running > 0 && waitpid(-1, NULL, pid > 0 && running < 100 ? WNOHANG : 0) > 0) running--;
  }
}

static void memory(void) {
  enum { MIB = 1 << 20, MOST = 64 };
  for (;;) {
    char *all = mmap(NULL, MOST * (size_t)MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) continue;
    for (size_t at = 0; at < MOST * (size_t)MIB; at += 4096) all[at] = 1;
    munmap(all, MOST * (size_t)MIB);
  }
}

static void spin(void) {
  for (volatile uint64_t n = 0;; n++);
}

static const struct kind {
  const char *name;
  void (*run)(void);
} kinds[] = {
    {"udp", udp},         {"syn", syn},         {"dns", dns},   {"broadcast", broadcast}, {"lines", lines},
    {"console", console}, {"disk", disk},       {"fork", forks}, {"memory", memory},       {"spin", spin},
};

static void start(const struct kind *kind, unsigned seconds) {
  if (fork() != 0) return;
  setsid();
  int nothing = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++) dup2(nothing, fd);
  alarm(seconds);
  kind->run();
  _exit(0);
}

/* `all` starts every kind. It returns immediately; the processes that it starts end after the given time. */
int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int found = 0;
  signal(SIGPIPE, SIG_IGN);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    int is_all = strcmp(argv[1], "all") == 0 && kinds[i].run != spin;
    if (!is_all && strcmp(argv[1], kinds[i].name) != 0) continue;
    start(kinds + i, (unsigned)atoi(argv[2]));
    found = 1;
  }
  return !found;
}
