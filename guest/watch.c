/* The file tool `watch`: prints a line for each change below a path. */
#include "mote.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each directory takes about 1 KiB of the kernel's memory. PAIR_MS: how long the second half of a move may take. */
enum { DIRECTORIES_MAX = 4096, PATH_BYTES = 4096 + 256, PAIR_MS = 20, CALM_US = 20000 };
enum {
  CHANGES = IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
            IN_ONLYDIR
};

/* In the order of `wd`: the kernel never uses a number twice. */
static struct watched {
  int wd;
  char *path;
} *watched;
static int count, queue, recursive, limited, root;
static char last[3 * PATH_BYTES + 16];
/* The first half of a move. */
static struct {
  uint32_t cookie;
  int directory;
  char path[PATH_BYTES];
} leaving;

/* A file that is written many times in a row is reported once for each batch of events. */
static void say(const char *what, const char *path) {
  char line[3 * PATH_BYTES + 16];
  int length = snprintf(line, sizeof line, "%s ", what);
  encode(line + length, path, strlen(path));
  if (strcmp(line, last)) dprintf(1, "%s\n", line);
  strcpy(last, line);
}

static struct watched *find(int wd) {
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (watched[middle].wd < wd) low = middle + 1;
    else high = middle;
  }
  return low < count && watched[low].wd == wd ? watched + low : NULL;
}

static void forget(struct watched *entry) {
  free(entry->path);
  memmove(entry, entry + 1, (size_t)(watched + --count - entry) * sizeof *entry);
}

static void remember(int wd, const char *path) {
  struct watched *known = find(wd);
  if (known) free(known->path);
  else {
    int at = count++;
    for (; at > 0 && watched[at - 1].wd > wd; at--) watched[at] = watched[at - 1];
    known = watched + at;
    known->wd = wd;
  }
  if (!(known->path = strdup(path))) _exit(1);
}

/* Files of the kernel do not report changes. */
static int is_kernel_tree(const char *path) {
  return !strcmp(path, "/proc") || !strcmp(path, "/sys") || !strcmp(path, "/dev");
}

static int join(char *to, const char *directory, const char *name) {
  int length = snprintf(to, PATH_BYTES, "%s%s%s", directory, directory[strlen(directory) - 1] == '/' ? "" : "/", name);
  return length < PATH_BYTES ? length : -1;
}

/* `is_new`: reports what is in it, because that may have been there before the watch. Returns -1 if it is not watched. */
static int watch(char *path, int is_new, uint32_t link) {
  int wd = count < DIRECTORIES_MAX ? inotify_add_watch(queue, path, CHANGES | link) : (errno = ENOSPC, -1);
  if (wd < 0 && errno == ENOSPC && !limited) limited = 1, dprintf(1, "limit %d\n", count);
  if (wd < 0) return -1;
  remember(wd, path);
  DIR *dir = recursive ? opendir(path) : NULL;
  size_t length = strlen(path);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    struct stat of;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    int more = snprintf(path + length, PATH_BYTES - length, "%s%s", path[length - 1] == '/' ? "" : "/", entry->d_name);
    int found = length + (size_t)more < PATH_BYTES && lstat(path, &of) == 0;
    if (found && is_new) say("created", path);
    if (found && S_ISDIR(of.st_mode) && !is_kernel_tree(path)) watch(path, is_new, IN_DONT_FOLLOW);
    path[length] = 0;
  }
  if (dir) closedir(dir);
  return wd;
}

static int is_below(const char *path, const char *directory) {
  size_t length = strlen(directory);
  return !strncmp(path, directory, length) && (!path[length] || path[length] == '/');
}

/* Stops watching a directory that was moved out of the tree. Events of it that are still queued find no entry. */
static void leave(const char *directory) {
  for (int i = 0; i < count;) {
    if (!is_below(watched[i].path, directory)) i++;
    else inotify_rm_watch(queue, watched[i].wd), forget(watched + i);
  }
}

static void rename_below(const char *from, const char *to) {
  char path[2 * PATH_BYTES];
  for (int i = 0; i < count; i++) {
    if (!is_below(watched[i].path, from)) continue;
    snprintf(path, sizeof path, "%s%s", to, watched[i].path + strlen(from));
    remember(watched[i].wd, path);
  }
}

/* The second half of the move has not come: the file has left the tree. No change in it is printed after "removed". */
static void finish_move(void) {
  if (!leaving.cookie) return;
  leaving.cookie = 0;
  if (leaving.directory) leave(leaving.path);
  say("removed", leaving.path);
}

static void moved(char *path, int directory) {
  char from[3 * PATH_BYTES], to[3 * PATH_BYTES];
  encode(from, leaving.path, strlen(leaving.path)), encode(to, path, strlen(path));
  dprintf(1, "moved %s %s\n", from, to);
  leaving.cookie = 0, *last = 0;
  if (directory) rename_below(leaving.path, path);
}

/* Returns whether what is watched has gone. `only`: the one name of the directory that is watched, or NULL. */
static int take(const struct inotify_event *event, const char *only) {
  char path[PATH_BYTES];
  int directory = (event->mask & IN_ISDIR) != 0;
  if (leaving.cookie && !(event->mask & IN_MOVED_TO && event->cookie == leaving.cookie)) finish_move();
  struct watched *at = find(event->wd);
  if (event->mask & IN_Q_OVERFLOW) dprintf(1, "overflow\n"), *last = 0;
  if (event->mask & IN_IGNORED && at) forget(at);
  if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) return event->wd == root;
  if (!at || event->mask & (IN_IGNORED | IN_Q_OVERFLOW)) return 0;
  /* Only of the path itself: its parent reports any other directory. */
  if (!event->len && event->wd == root && !only) say("changed", at->path);
  if (!event->len || (only && strcmp(event->name, only)) || join(path, at->path, event->name) < 0) return 0;
  if (event->mask & IN_MOVED_FROM) {
    leaving.cookie = event->cookie, leaving.directory = directory;
    strcpy(leaving.path, path);
  } else if (event->mask & IN_MOVED_TO && leaving.cookie) moved(path, directory);
  else if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
    say("created", path);
    if (directory && recursive && !is_kernel_tree(path)) watch(path, 1, IN_DONT_FOLLOW);
  } else say(event->mask & IN_DELETE ? "removed" : "changed", path);
  return 0;
}

/*
 * `<path> <1: with all directories below>`. `watching <directories>` is the first line; then `created`, `changed` or
 * `removed` and the path, `moved` and both paths, `limit <directories>` if there are more of them, and `overflow` if the
 * kernel dropped changes. Ends when the path has gone. A file is watched in its directory, because programs replace files.
 */
int watch_files(char **argv) {
  static char path[PATH_BYTES], batch[1 << 16] __attribute__((aligned(8)));
  struct stat of;
  const char *only = NULL;
  if (strlen(argv[0]) >= PATH_BYTES - 256) return errno = ENAMETOOLONG, file_fault(argv[0]);
  if (stat(argv[0], &of) < 0) return file_fault(argv[0]);
  snprintf(path, sizeof path, "%s", argv[0]);
  for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--) path[length - 1] = 0;
  recursive = S_ISDIR(of.st_mode) && argv[1] && *argv[1] == '1';
  if (!S_ISDIR(of.st_mode)) {
    char *slash = strrchr(path, '/');
    only = strdup(slash ? slash + 1 : path);
    if (!slash) strcpy(path, ".");
    else slash[slash == path] = 0;
  }
  watched = calloc(DIRECTORIES_MAX, sizeof *watched);
  if (!watched || (queue = inotify_init1(IN_CLOEXEC)) < 0) return file_fault(argv[0]);
  if ((root = watch(path, 0, 0)) < 0) return file_fault(argv[0]);
  dprintf(1, "watching %d\n", count);
  for (;;) {
    struct pollfd ready = {.fd = queue, .events = POLLIN};
    if (poll(&ready, 1, leaving.cookie ? PAIR_MS : -1) == 0) {
      finish_move();
      continue;
    }
    ssize_t length = read(queue, batch, sizeof batch);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return file_fault(argv[0]);
    *last = 0;
    for (char *next = batch; next < batch + length;) {
      const struct inotify_event *event = (const struct inotify_event *)next;
      if (take(event, only)) return say("removed", path), 0;
      next += sizeof *event + event->len;
    }
    usleep(CALM_US);
  }
}
