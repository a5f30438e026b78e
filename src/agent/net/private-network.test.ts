import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { HostNetwork } from '../../contract/network.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { fakeNetwork } from './fake.ts'
import { openPrivateNetwork } from './private-network.ts'

const view = (version: number, hash: string): HostNetwork => ({
  version,
  hash,
  address: 'fd00::1',
  peers: [
    {
      hostId: 'b',
      publicKey: 'k',
      endpoint: 'b:1',
      address: 'fd00::2',
      vmAddresses: [],
      ipv4: { guests: '10.2.0.0/20', gateway: '10.2.15.255' },
    },
  ],
  zones: [{ projectId: 'p', names: [{ name: 'web', addresses: ['fd00:0:0:1::1'] }] }],
})

async function open(dataDir: string) {
  const gateways: (readonly string[])[] = []
  const network = {
    ...fakeNetwork(),
    allowGateways: async (addresses: readonly string[]) => void gateways.push(addresses),
  }
  const log = pino({ level: 'silent' })
  const opened = await openPrivateNetwork({
    dataDir,
    network,
    log,
    mesh: undefined,
    queriesPerSecond: 1_000,
    onRefused: () => undefined,
    desiredOf: () => undefined,
  })
  return { opened, gateways }
}

it("a host applies the control plane's network, refuses older versions, and restores it after a restart", async () => {
  await using dir = await testDir()
  const first = await open(dir.path)
  expect((await first.opened.observed()).hash).toBe('')
  expect(await first.opened.put(view(5, 'five'))).toEqual({ hash: 'five', mesh: null, error: null })
  expect(first.gateways).toEqual([['fd00::2', '10.2.15.255']])
  await expect(first.opened.put(view(4, 'four'))).rejects.toMatchObject({ code: 'stale_version' })
  await first.opened.put(view(5, 'five again'))
  expect((await first.opened.observed()).hash).toBe('five again')
  await first.opened.stop({ stopVms: false })

  const second = await open(dir.path)
  expect((await second.opened.observed()).hash).toBe('five again')
  expect(second.gateways).toHaveLength(1)
  await second.opened.stop({ stopVms: false })
})

it('without a readable stored network, the host starts with an empty network', async () => {
  await using dir = await testDir()
  await writeFile(join(dir.path, 'network.json'), '{"version": 5, "hash"')
  const { opened } = await open(dir.path)
  expect((await opened.observed()).hash).toBe('')
  await opened.put(view(1, 'one'))
  await opened.stop({ stopVms: false })
})

it('the host reports why the mesh does not start, and still answers requests', async () => {
  await using dir = await testDir()
  const mesh = { device: 'wg-mote', endpoint: 'nowhere', rotateAfterMs: 1e9 }
  const log = pino({ level: 'silent' })
  const opened = await openPrivateNetwork({
    dataDir: dir.path,
    network: fakeNetwork(),
    log,
    mesh,
    queriesPerSecond: 1_000,
    onRefused: () => undefined,
    desiredOf: () => undefined,
  })
  expect(await opened.observed()).toEqual({
    hash: '',
    mesh: null,
    error: expect.stringContaining('"nowhere" is not an address'),
  })
  await opened.stop({ stopVms: false })
})
