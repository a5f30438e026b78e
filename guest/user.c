/* Users of the image, read from its /etc/passwd and /etc/group: a static libc may need the image's libraries for it. */
#include "mote.h"
#include <stdio.h>
#include <string.h>

enum { FIELDS = 7 };

/* Splits a line at its colons, and returns the number of fields. */
static int split(char *line, char *fields[FIELDS]) {
  int count = 0;
  line[strcspn(line, "\n")] = 0;
  for (char *field; count < FIELDS && (field = strsep(&line, ":"));) fields[count++] = field;
  return count;
}

static int parse_id(const char *text, unsigned *id) {
  char *end = NULL;
  unsigned long value = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || value >= 0xffffffffUL) return -1;
  *id = (unsigned)value;
  return 0;
}

/* The groups that list this user. */
static void read_groups(struct config *config, const char *name) {
  char line[4096], *fields[FIELDS];
  FILE *file = fopen("/etc/group", "re");
  while (file && config->groupc < MAX_GROUPS && fgets(line, sizeof line, file)) {
    unsigned gid;
    if (split(line, fields) < 4 || parse_id(fields[2], &gid) < 0) continue;
    for (char *member; (member = strsep(&fields[3], ","));)
      if (!strcmp(member, name)) {
        config->groups[config->groupc++] = gid;
        break;
      }
  }
  if (file) fclose(file);
}

/*
 * Sets the user's ids and groups, and its home directory in `home`. Accepts a name or a number of /etc/passwd, and a
 * number that it does not list. Returns -1 for an unknown name.
 */
int user_take(struct config *config, const char *wanted, char *home, size_t size) {
  char line[4096], *fields[FIELDS];
  unsigned id = 0, uid, gid;
  int numeric = parse_id(wanted, &id) == 0, found = 0;
  FILE *file = fopen("/etc/passwd", "re");
  snprintf(home, size, "/");
  while (file && !found && fgets(line, sizeof line, file)) {
    if (split(line, fields) < 6 || parse_id(fields[2], &uid) < 0 || parse_id(fields[3], &gid) < 0) continue;
    if (strcmp(fields[0], wanted) && !(numeric && uid == id)) continue;
    found = 1;
    config->uid = uid, config->gid = gid, config->groupc = 0;
    snprintf(home, size, "%s", *fields[5] ? fields[5] : "/");
    read_groups(config, fields[0]);
  }
  if (file) fclose(file);
  if (!found && numeric) config->uid = id, config->gid = id, config->groupc = 0;
  return found || numeric ? 0 : -1;
}
