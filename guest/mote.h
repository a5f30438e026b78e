/* What the parts of Mote's guest init share. The protocol is described in docs/agent.md. */
#ifndef MOTE_H
#define MOTE_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MAX_ARGS = 1024, MAX_GROUPS = 64, CONFIG_MAX = 1 << 20 };

/* The config disk, decoded. Strings point into one buffer that lives for ever. */
struct config {
  char *argv[MAX_ARGS + 1], *env[MAX_ARGS + 1];
  int argc, envc, groupc, prefix, stop_signal;
  gid_t groups[MAX_GROUPS], gid;
  uid_t uid;
  const char *cwd, *hostname, *base_type, *ip, *gateway, *gateway_mac, *dns;
};

/* boot.c: from a bare kernel to a root file system and a network. Each ends in fatal() where it cannot go on. */
void fatal(const char *what);
void mount_kernel_trees(void);
void load_modules(void);
void read_config(struct config *config);
void enter_root(const struct config *config);
void configure_network(const struct config *config);
void write_identity(const struct config *config);

/* workload.c */
struct workload {
  pid_t pid; /* 0: not running */
  int out, err;
  int exited, code; /* exited: it ran and ended; code as a shell gives it (128 + signal) */
};
int workload_start(struct workload *workload, const struct config *config);
int listening(const struct config *config, int port);

/* ports.c: the two virtio-serial ports. */
enum stream { OUT = 1, ERR = 2, SYSTEM = 3 };
void ports_open(void);
int log_fd(void);
int control_fd(void);
void log_bytes(enum stream stream, const char *data, size_t length);
void log_end(enum stream stream);
void log_pump(void);
void log_read(void);
void control_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void control_pump(void);
void control_read(void (*on_line)(char *line));
uint64_t now_us(void);
#endif
