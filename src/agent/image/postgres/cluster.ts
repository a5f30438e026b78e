import { chmod, chown, mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../../lib/exec.ts'

export interface ClusterOptions {
  /** Directory with the unpacked image, which contains the PostgreSQL server. */
  readonly root: string
  readonly version: number
  readonly uid: number
  /** Directory to which the finished cluster is moved. */
  readonly target: string
}

/**
 * Creates a cluster with the role `mote` and its database `app`, using the server in `root`. `mote` is not a superuser,
 * because superusers can run programs in the VM. Its password and the name of the database are set when a database
 * starts.
 */
export async function initializeCluster({ root, version, uid, target }: ClusterOptions): Promise<void> {
  const home = join(root, 'cluster-home')
  const device = join(root, 'dev/null')
  const bin = `/usr/lib/postgresql/${version}/bin`
  const inside = (program: string, args: readonly string[], input?: string) =>
    run('chroot', [`--userspec=${uid}:${uid}`, root, `${bin}/${program}`, ...args], {
      ...(input === undefined ? {} : { input }),
      timeoutMs: 120_000,
    })
  try {
    await mkdir(home, { recursive: true })
    await chown(home, uid, uid)
    await mkdir(dirname(device), { recursive: true })
    await run('mknod', ['-m', '666', device, 'c', '1', '3'])
    const data = '/cluster-home/data'
    await inside('initdb', [
      '-D',
      data,
      '-U',
      'postgres',
      '-E',
      'UTF8',
      '--locale=C.UTF-8',
      '--data-checksums',
      '-A',
      'peer',
    ])
    await inside('postgres', ['--single', '-j', '-D', data, 'postgres'], initialSql)
    await mkdir(dirname(target), { recursive: true })
    await rename(join(home, 'data'), target)
    await chmod(target, 0o700)
  } finally {
    await rm(home, { recursive: true, force: true })
    await rm(device, { force: true })
  }
}

/**
 * SQL statements that run once, when the cluster is created. `postgres --single -j` reads one statement per paragraph.
 */
const initialSql = [
  'CREATE ROLE mote LOGIN CREATEDB CREATEROLE',
  'GRANT pg_monitor, pg_signal_backend TO mote WITH ADMIN OPTION',
  'CREATE DATABASE app OWNER mote',
  'CHECKPOINT',
]
  .map(statement => `${statement};\n\n`)
  .join('')
