import { openSync, closeSync, createReadStream, createWriteStream } from 'node:fs'
import { chown, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pipeline } from 'node:stream/promises'
import { hasCode } from '../../../lib/files.ts'
import { connectIn } from '../../../lib/short-socket.ts'
import { runDir, type VmUser } from '../isolation.ts'
import { asObject, type Qmp } from './qmp.ts'

/** Sockets through which QEMU saves and loads device state and non-shared memory, in its migration format. */
const saveSocket = 'save.sock'
const loadSocket = 'load.sock'

/**
 * Writes the state of the paused VM to the file. QEMU sends the state through a socket in its run directory, because
 * its sandbox forbids starting programs, as `exec:` would do.
 * @param dir QEMU's run directory
 * @param memoryApart true to omit shared memory (QEMU's migration capability `x-ignore-shared`)
 */
export async function saveState(
  qmp: Qmp,
  dir: string,
  file: string,
  memoryApart: boolean,
  user: VmUser | undefined,
): Promise<void> {
  const { server, written } = await receiver(dir, file)
  try {
    if (user) await chown(join(dir, saveSocket), user.uid, user.gid)
    await setCapabilities(qmp, { 'x-ignore-shared': memoryApart })
    await qmp.execute('migrate-set-parameters', { 'max-bandwidth': unlimitedBytes })
    await qmp.execute('migrate', { uri: `unix:${runDir}/${saveSocket}` })
    await Promise.all([migrationEnd(qmp, 'save'), written])
  } finally {
    server.close()
    await rm(join(dir, saveSocket), { force: true })
  }
}

/** Sends the state to a QEMU that waits for one; resolves when it is loaded. The guest stays paused (`-S`). */
export async function loadState(qmp: Qmp, dir: string, file: string, memoryApart: boolean): Promise<void> {
  await setCapabilities(qmp, { 'x-ignore-shared': memoryApart })
  await rm(join(dir, loadSocket), { force: true })
  await qmp.execute('migrate-incoming', { uri: `unix:${runDir}/${loadSocket}` })
  // Ignore write errors: QEMU may close the socket at the end mark, before the last write returns. QEMU reports the
  // outcome itself.
  const sent = pipeline(createReadStream(file), await connectIn(dir, loadSocket)).catch(() => undefined)
  await migrationEnd(qmp, 'load')
  await sent
  await rm(join(dir, loadSocket), { force: true })
}

export const unlimitedBytes = 2 ** 40

export async function setCapabilities(qmp: Qmp, wanted: Readonly<Record<string, boolean>>): Promise<void> {
  const capabilities = Object.entries(wanted).map(([capability, state]) => ({ capability, state }))
  await qmp.execute('migrate-set-capabilities', { capabilities })
}

/** Waits until QEMU's migration has completed. @throws Error with QEMU's reason when it failed */
async function migrationEnd(qmp: Qmp, what: 'save' | 'load'): Promise<void> {
  for (;;) {
    const { status, 'error-desc': reason } = asObject(await qmp.execute('query-migrate'))
    if (status === 'completed') return
    if (status === 'failed' || status === 'cancelled')
      throw new Error(`QEMU could not ${what} the memory and device state of the VM: ${String(reason ?? status)}`)
    await sleep(2)
  }
}

/** Listens through /proc/self/fd, because a socket path is limited to 107 bytes. */
async function receiver(dir: string, file: string): Promise<{ server: Server; written: Promise<void> }> {
  await rm(join(dir, saveSocket), { force: true })
  const written = Promise.withResolvers<void>()
  written.promise.catch(() => undefined)
  const server = createServer(socket => {
    pipeline(socket, createWriteStream(file, { mode: 0o600 })).then(written.resolve, written.reject)
  })
  const fd = openSync(dir, 'r')
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(`/proc/self/fd/${fd}/${saveSocket}`, resolve)
    })
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) server.close()
    throw error
  } finally {
    closeSync(fd)
  }
  return { server, written: written.promise }
}
