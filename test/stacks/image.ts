/** Builds the one image that the services of all test stacks use: Debian's programs. It is built once per machine. */
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { cachedDir } from '../../src/agent/guest/cache.ts'
import { writeLayout } from '../../src/agent/image/write-layout.ts'
import { run } from '../../src/lib/exec.ts'

const packages = [
  ...['redis-server', 'postgresql-15', 'nginx-light', 'mariadb-server', 'memcached', 'beanstalkd', 'mosquitto'],
  ...['mosquitto-clients', 'nats-server', 'haproxy', 'python3-flask', 'python3-redis', 'python3-psycopg2'],
  ...['python3-pymysql', 'python3-pymemcache', 'python3-gunicorn', 'php-cli', 'php-mysql', 'php-redis', 'php-pgsql'],
  ...[
    'wordpress',
    'curl',
    'git',
    'rsync',
    'vim-tiny',
    'procps',
    'ca-certificates',
    'prometheus',
    'etcd-server',
    'etcd-client',
  ],
]

/** Start scripts that, like those of the official images, create the database if its volume is empty. */
const entrypoints = {
  postgres: `#!/bin/sh
set -e
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data/pg
chown postgres /var/lib/postgresql/data
as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
if [ ! -e $data/PG_VERSION ]; then
  as $bin/initdb -D $data --auth-host scram-sha-256 --auth-local trust --pwfile "$POSTGRES_PASSWORD_FILE"
  echo "host all all all scram-sha-256" >> $data/pg_hba.conf
  as $bin/pg_ctl -D $data -o "-c listen_addresses='' -k /tmp" -w start
  as $bin/createdb -h /tmp "$POSTGRES_DB"
  as $bin/pg_ctl -D $data -m fast -w stop
fi
exec setpriv --reuid postgres --regid postgres --clear-groups $bin/postgres -D $data -c "listen_addresses=*" -k /tmp
`,
  mariadb: `#!/bin/sh
set -e
chown mysql /var/lib/mysql
mkdir -p /run/mysqld && chown mysql /run/mysqld
new=
if [ ! -d /var/lib/mysql/mysql ]; then
  mariadb-install-db --user=mysql --auth-root-authentication-method=normal > /dev/null
  new=--init-file=/tmp/init.sql
  printf "CREATE DATABASE %s; CREATE USER %s@'%%' IDENTIFIED BY '%s'; GRANT ALL ON %s.* TO %s@'%%';" \\
    "$MARIADB_DATABASE" "$MARIADB_USER" "$MARIADB_PASSWORD" "$MARIADB_DATABASE" "$MARIADB_USER" | sed 's/; /;\\n/g' > /tmp/init.sql
fi
exec mariadbd --user=mysql --bind-address=:: $new
`,
}

/**
 * Returns the path of the OCI image layout `stack-tools`; builds it if it is not cached.
 * @throws Error if Debian's packages cannot be reached, or mmdebstrap is not installed
 */
export async function stackImage(): Promise<string> {
  const key = createHash('sha256').update(JSON.stringify({ packages, entrypoints })).digest('hex').slice(0, 12)
  const dir = await cachedDir(join(homedir(), '.cache', 'mote', 'test-images', `stacks-${key}`), make)
  return join(dir, 'stack-tools')
}

async function make(dir: string): Promise<void> {
  const layer = join(dir, 'layer.tar')
  const left = ['doc', 'man', 'locale', 'info', 'lintian'].map(one => `--dpkgopt=path-exclude=/usr/share/${one}/*`)
  const tidy = '--customize-hook=rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*'
  const args = ['--quiet', '--variant=minbase', `--include=${packages.join(',')}`, tidy, ...left, 'bookworm', layer]
  await run('mmdebstrap', [...args, 'http://deb.debian.org/debian'], { timeoutMs: 30 * 60_000 })
  await finish(dir, layer)
}

async function finish(dir: string, layer: string): Promise<void> {
  const own = join(dir, 'own.tar')
  await writeFile(own, await ownLayer())
  await writeLayout(join(dir, 'stack-tools'), {
    tag: 'latest',
    layers: [layer, own],
    config: { Env: [], Cmd: ['/bin/sh'] },
  })
}

/**
 * Returns a layer with the start scripts and the directories that Debian creates when it starts a service. It removes
 * the databases that Debian's packages create.
 */
async function ownLayer(): Promise<Buffer> {
  const tar = pack()
  const mtime = new Date(0)
  for (const name of ['opt', 'var/log/nginx', 'var/log/mosquitto'])
    tar.entry({ name, type: 'directory', mode: 0o755, mtime })
  for (const name of ['var/lib/mysql', 'var/lib/postgresql'])
    tar.entry(
      { name: `${name.slice(0, name.lastIndexOf('/'))}/.wh.${name.slice(name.lastIndexOf('/') + 1)}`, mtime },
      '',
    )
  for (const [name, text] of Object.entries(entrypoints)) tar.entry({ name: `opt/${name}`, mode: 0o755, mtime }, text)
  tar.finalize()
  return buffer(tar)
}
