/* Shared declarations of Mote's guest init. The protocol is described in docs/agent.md. */
#ifndef MOTE_H
#define MOTE_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

enum { MAX_ARGS = 1024, MAX_GROUPS = 64, MAX_FILES = 64, MAX_ALIASES = 16, CONFIG_MAX = 1 << 20 };

/* The decoded config disk. Strings point into one buffer that is never freed. */
struct config {
  char *argv[MAX_ARGS + 1], *env[MAX_ARGS + 1], *files[MAX_FILES], *aliases[MAX_ALIASES];
  int argc, envc, filec, aliasc, groupc, prefix, stop_signal, wait, vsock;
  gid_t groups[MAX_GROUPS], gid;
  uid_t uid;
  const char *cwd, *hostname, *base_type, *machine_id, *ip, *gateway, *gateway_mac, *dns, *ip6, *gateway6, *route6;
};

/* boot.c: from a bare kernel to a root file system and a network. Each function calls fatal() if it cannot continue. */
void fatal(const char *what);
void power_off(void);
void end_proof(void);
void mount_kernel_trees(void);
void load_modules(void);
void load_late_modules(void);
void load_vsock_modules(void);
int template_base(char *type, size_t size);
void read_config(struct config *config);
void enter_root(const char *base_type);
void configure_network(const struct config *config);
void write_identity(const struct config *config);
void config_take(struct config *config, const char *key, char *value);
void put_file(const char *path, const char *text);

/* ipv6.c */
void ipv6_prepare(void);
void ipv6_configure(const struct config *config);

/* text.c: values are percent-encoded, so that any byte survives a line of words. */
void decode(char *text);
void encode(char *to, const char *from, size_t length);
void base64_encode(char *to, const char *from, size_t length);
ssize_t base64_decode(char *text);

/* workload.c */
struct workload {
  pid_t pid; /* 0: not running */
  int out, err;
  int exited, code; /* exited: it ran and ended; code as a shell gives it (128 + signal) */
};
pid_t spawn(const struct config *config, char *const *argv, int fds[2]);
pid_t spawn_session(const struct config *config, char *const *argv, const int stdio[3], int tty, int tool);
int workload_start(struct workload *workload, const struct config *config);
int listening(const struct config *config, int port);

/* programs.c */
void programs_take(const char *key, char *value);
const char *programs_link(void);
int programs_before(struct workload *workload, const struct config *config);
int programs_before_done(int code);
void programs_start(const struct config *config, void (*watch)(int fd));
int programs_read(int fd);
int programs_reaped(pid_t pid, int status, int halting, pid_t workload);
void programs_pump(const struct config *config, void (*watch)(int fd));
int programs_wait_ms(void);
int programs_signal(int signal);

/* given.c */
const char *write_given_files(struct config *config);

/* exec.c */
void exec_start(const struct config *config, const char *id, char *text, void (*watch)(int fd));
int exec_reaped(pid_t pid, int status);
void exec_pump(void);
int exec_wait_ms(void);

/* user.c */
int user_take(struct config *config, const char *wanted, char *home, size_t size);

/* record.c: data within lines. RECORD_MAX: of the longest data with its list; a host reads lines of 64 KiB. */
enum { RECORD_MAX = 65000 };
size_t record_encode(char *data, size_t *length, char *list, size_t most);
int record_decode(char *data, size_t length, const char *list, size_t size);

/*
 * backlog.c: output of a session from byte `oldest` to `tail`. The host has acknowledged everything before `acked`. A ring
 * grows while a host reads records with a larger window, until it has WINDOW_MAX bytes or all rings grew by GROWN_MAX.
 */
enum { BACKLOG_MAX = 1 << 18, WINDOW_MAX = 1 << 21, GROWN_MAX = 1 << 23 };
struct backlog {
  char *ring;
  size_t size;
  uint64_t oldest, tail, sent, acked;
};
int backlog_open(struct backlog *backlog);
void backlog_close(struct backlog *backlog);
size_t backlog_room(const struct backlog *backlog, int held);
char *backlog_space(const struct backlog *backlog, int held, size_t *length);
void backlog_add(struct backlog *backlog, size_t length);
void backlog_grow(struct backlog *backlog, uint64_t window);
size_t backlog_next(const struct backlog *backlog, uint64_t window, char *to, size_t most);
int backlog_seek(struct backlog *backlog, uint64_t from);
void backlog_ack(struct backlog *backlog, uint64_t until);

/* session.c: processes that outlive the connection of the host that started them. */
enum { SESSIONS_MAX = 16, SESSION_INPUT_MAX = 1 << 20, WRITING_MAX = 8 };
struct session {
  char id[40], attach[40], token[40], writing[WRITING_MAX][40]; /* `attach`, `writing`: requests that are answered later */
  /* held: output is not overwritten before a host has acknowledged it; from the start until a host detaches */
  int used, held, records, tty, signaled, code, input, closing, fds[2];
  pid_t pid; /* 0 once it has ended */
  struct backlog out[2];
  char *pending; /* input that the process has not read yet */
  size_t pending_from, pending_to;
  uint64_t input_total, window, started;
};
extern struct session sessions[SESSIONS_MAX];
int session_command(const struct config *config, const char *verb, const char *id, char *text, void (*watch)(int fd));
int session_reaped(pid_t pid, int status);
void session_close_input(struct session *session);
void session_detach(struct session *session, const char *why);

/* session-start.c */
void session_open(const struct config *config, const char *id, const char *name, char *text, void (*watch)(int fd));
void session_free(struct session *session);
int session_signal(const struct session *session, int number);

/* files.c: tools that read and write files for the host, as the workload's user. */
struct stat;
int file_tool(char *const *argv);
int file_fault(const char *path);
ssize_t read_full(int fd, char *bytes, size_t size);
int write_full(int fd, const char *bytes, size_t size);
void make_path(char *path);
void make_parents(const char *path);
int begin_file(const char *path);
int finish_file(int fd, const char *path, int mode);
int walk_files(const char *from, int depth, int (*visit)(const char *path, const struct stat *stat_of), int after);

/* watch.c */
int watch_files(char **argv);

/* tar.c */
int tar_pack(char *path);
int tar_unpack(char *into);

/* processes.c */
int list_processes(void);

/* sftp.c */
int sftp_serve(void);

/* relay.c */
pid_t spawn_relay(const struct config *config, int port, const char *path, const int stdio[3]);

/* session-pump.c */
int session_pump(void);

/* disks.c */
void disk_mount(const struct config *config, const char *id, char *text);
void disk_unmount(const char *id, char *text);
void disk_grow(const char *id, char *text);
void disk_freeze(const char *id, char *text);
void disk_thaw_all(void);
void disk_rescan_all(void);
void give_to_workload(const struct config *config, const char *at);

/* grow.c */
void disk_rescan(const char *name);
uint64_t disk_bytes(const char *device);
int disk_fill(const char *device, const char *at);

/* identity.c */
void identity_renew(struct config *config, const char *id, char *text);
int identity_begin(struct config *config, char *text);

/* sandbox.c: gVisor instead of a kernel of its own. */
void sandbox_enter(const char *config_file);
int sandbox_config(void);
void sandbox_ports(int mine[2]);
void sandbox_carry(char **numbers);
int sandbox_reaped(pid_t pid);
void sandbox_bind(const struct config *config, const char *id, char *text);
void sandbox_unbind(const char *id, char *text);

/* warm.c */
void warm_up(void);

/* vsock.c */
int vsock_listen(unsigned port);
int vsock_accept(int listener);

/* ports.c: the two ports to the host, virtio-serial or vsock. */
enum stream { OUT = 1, ERR = 2, SYSTEM = 3 };
void ports_open(const struct config *config);
int port_listeners(int which);
int port_accept(int listener);
int log_fd(void);
int control_fd(void);
void log_line(enum stream stream, const char *data, size_t length);
void log_bytes(enum stream stream, const char *data, size_t length);
void log_end(enum stream stream);
void log_pump(void);
void log_read(void);
void control_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void control_pump(void);
/* Space for answers that the output of programs leaves free: control_say() drops what does not fit. */
enum { CONTROL_RESERVE = 16384 };
size_t control_room(void);
char *control_space(size_t wanted);
void control_add(size_t length);
void control_read(void (*on_line)(char *line));
/* The end of the line that is handled, whose data may contain zeros. */
extern const char *line_end;
uint64_t now_us(void);
#endif
