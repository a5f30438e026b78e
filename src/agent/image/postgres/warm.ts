/**
 * Lists the files that are read at every start of a database VM, so that a template has them in memory (guest/warm.c).
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'

const loader = '/lib64/ld-linux-x86-64.so.2'
/** PostgreSQL programs that run at each start or soon after it. */
const programs = ['postgres', 'pg_ctl'] as const

/**
 * Returns the paths of these files in the image: the server with its libraries and configuration, and Mote's own
 * programs.
 */
export async function warmList(root: string, version: number): Promise<string[]> {
  const server = programs.map(name => `/usr/lib/postgresql/${version}/bin/${name}`)
  const dynamic = [...server, '/usr/bin/openssl']
  const listed = await Promise.all(dynamic.map(path => run('chroot', [root, loader, '--list', path])))
  const ours = (await readdir(join(root, 'usr/local/bin'))).map(name => `/usr/local/bin/${name}`)
  const settings = (await readdir(join(root, 'etc/mote'))).map(name => `/etc/mote/${name}`)
  return [
    ...new Set([
      ...[
        '/bin/busybox',
        loader,
        '/etc/ld.so.cache',
        '/etc/passwd',
        '/etc/group',
        '/etc/hosts',
        '/etc/ssl/openssl.cnf',
      ],
      ...['/usr/share/zoneinfo/UTC', `/usr/share/postgresql/${version}/timezonesets/Default`],
      ...dynamic,
      ...listed.flatMap(librariesIn),
      ...ours,
      ...settings,
    ]),
  ]
}

/** Parses lines of `ld.so --list`: `libssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007f...)`. */
function librariesIn(listed: string): string[] {
  return [...listed.matchAll(/=> (\/\S+) \(0x/g)].map(([, path = '']) => path)
}
