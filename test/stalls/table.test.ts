// Not repeated on the distribution's PostgreSQL: this file tests a list of modules, not the database.
/**
 * Every module that parses bytes from tenants, guests, builders or registries is tested with the worst known input, for
 * which it must not block the event loop for long. This test finds modules without such a case.
 */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { lineReader } from '../../src/lib/lines.ts'
import { controlCases } from './control.ts'
import { imagesCases } from './images.ts'
import { guestsCases } from './guests.ts'
import { vmmsCases } from './vmms.ts'

const cases = [...controlCases, ...imagesCases, ...guestsCases, ...vmmsCases]

describe('the table of parsers', () => {
  /**
   * Modules that need no case: they read output of the platform's own programs and hosts, which tenants cannot
   * influence, or only count the bytes that they pass on.
   */
  const trusted = [
    'src/agent/guest/pace.ts',
    'src/agent/hypervisor/console.ts',
    'src/agent/hypervisor/gvisor/console.ts',
    'src/agent/launcher/launcher.ts',
    'src/gateway/forward.ts',
    'src/gateway/grpc.ts',
    'src/gateway/publish/haproxy.ts',
    'src/gateway/upgrade.ts',
    'src/lib/archive/thread.ts',
  ]
  const code = (file: string) => readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
  it('contains every module that reads a stream incrementally', () => {
    const marks =
      /\.on\(\s*'data'|readPaced\(|lineReader\(|tarEntries\(|inThread\(|inThread<|packet\.decode\(|frameReader\(/
    const readers = globSync('src/{agent,gateway,lib,control}/**/*.ts')
      .filter(file => !/test(ing)?(-child|-guest|-drivers)?\.ts$|testing/.test(file))
      .filter(file => marks.test(code(file)))
    const known = new Set([...cases.flatMap(one => one.files), ...trusted])
    expect(readers.filter(file => !known.has(file))).toEqual([])
    expect([...known].filter(file => readFileSync(file).length === 0)).toEqual([])
  })

  /** Further modules that parse input or copy streams but need no case, by reason. */
  const others: Readonly<Record<string, readonly string[]>> = {
    "the bytes are the platform's own, its operator's, or those of the host's tools": [
      'src/agent/build/builds.ts',
      'src/agent/disk/lvm-thin-pool.ts',
      'src/agent/disk/rbd-images.ts',
      'src/agent/disk/rbd-pool.ts',
      'src/agent/guest/shipped-kernel.ts',
      'src/agent/hypervisor/fake/driver.ts',
      'src/agent/hypervisor/fake/guest.ts',
      'src/agent/hypervisor/fake/wire.ts',
      'src/agent/hypervisor/gvisor/runsc.ts',
      'src/agent/hypervisor/identity.ts',
      'src/agent/hypervisor/qemu/snapshot.ts',
      'src/agent/mesh/device.ts',
      'src/agent/net/devices.ts',
      'src/agent/net/listing.ts',
      'src/agent/net/private-network.ts',
      'src/agent/snapshot/store.ts',
      'src/agent/state.ts',
      'src/agent/volume/store.ts',
      'src/control/auth/password-worker.ts',
      'src/control/databases/backup-target.ts',
      'src/control/databases/pageserver.ts',
      'src/control/http/route.ts',
      'src/control/http/stream-events.ts',
      'src/lib/archive/packing.ts',
    ],
    'a signature is verified first': [
      'src/control/bastion/signed.ts',
      'src/control/billing/json.ts',
      'src/control/scm/state.ts',
    ],
    'at most a few KiB are accepted': [
      'src/agent/mesh/prober.ts',
      'src/control/http/paging.ts',
      'src/control/http/socket.ts',
      'src/control/vm-sessions/attachment.ts',
    ],
    'another host sends the bytes, after it has presented the secret of this move': [
      'src/agent/snapshot/move.ts',
      'src/agent/volume/move/content.ts',
      'src/agent/volume/move/send.ts',
    ],
    'the bytes are only counted and passed on': [
      'src/agent/build/archives/store.ts',
      'src/agent/build/more-archives.ts',
      'src/agent/hypervisor/cloud-hypervisor/protocol.ts',
      'src/agent/hypervisor/qemu/gate.ts',
      'src/agent/hypervisor/qemu/guest-memory.ts',
      'src/agent/hypervisor/qemu/relay.ts',
      'src/agent/hypervisor/qemu/state-file.ts',
      'src/agent/logs/segment.ts',
      'src/control/deployments/logs.ts',
      'src/control/http/bytes-route.ts',
      'src/control/http/upload.ts',
      'src/control/vm-sessions/file-routes.ts',
      'src/control/vm-sessions/file-session.ts',
      'src/gateway/bastion/bastion.ts',
      'src/gateway/bastion/shell-stream.ts',
      'src/lib/guarded-proxy.ts',
    ],
    'the module is covered by the case of its caller': [
      'src/agent/build/compose.ts',
      'src/agent/build/plan/node/locks.ts',
      'src/agent/build/plan/project.ts',
      'src/agent/guest/ports.ts',
      'src/agent/image/document-thread.ts',
      'src/agent/image/registry.ts',
      'src/agent/image/write-layout.ts',
      'src/control/databases/backups.ts',
      'src/control/deployments/list-store.ts',
    ],
  }
  it('contains every module that parses JSON or copies a stream', () => {
    const marks =
      /for await \(|pipeline\(|\.pipe\(|\.on\(\s*'(?:message|readable)'|new Transform|JSON\.parse\(|createGunzip/
    const found = globSync('src/{agent,gateway,lib,control}/**/*.ts')
      .filter(file => !/test(ing)?(-child|-guest|-drivers)?\.ts$|testing/.test(file))
      .filter(file => marks.test(code(file)))
    const known = new Set([...cases.flatMap(one => one.files), ...trusted, ...Object.values(others).flat()])
    expect(found.filter(file => !known.has(file))).toEqual([])
    const gone = Object.values(others)
      .flat()
      .filter(file => !found.includes(file))
    expect(gone).toEqual([])
  })

  it('relies on the line reader, which scans each byte only once', () => {
    const part = Buffer.from('x')
    const read = lineReader(
      1 << 20,
      () => undefined,
      () => undefined,
    )
    for (let n = 0; n < 100_000; n++) read(part)
    expect(read(Buffer.from('\n'))).toBe(1)
  })
})
