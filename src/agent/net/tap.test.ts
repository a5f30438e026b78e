import { existsSync, readdirSync } from 'node:fs'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import { spawn } from 'node:child_process'
import { runsAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import { run } from '../../lib/exec.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { testAgent, testDir, testSpec } from '../../../test/support/agent/agent.ts'
import { removeTap, tapNames } from './devices.ts'
import { keysOf, parseListing } from './listing.ts'
import { tapNetwork } from './tap.ts'

const why = process.getuid?.() !== 0 ? 'needs root' : existsSync('/usr/bin/qemu-system-x86_64') ? '' : 'needs qemu'

/** Shell script that requests a page from each address and port, and prints which of them answered. */
const tryAll = (places: readonly string[]) =>
  `for p in ${places.join(' ')}; do if [ -n "$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 \${p%:*} \${p#*:})" ]; then echo "open $p"; else echo "shut $p"; fi; done; echo done; exec sleep 600`

test.skipIf(why !== '')(
  `a guest reaches the outside world, but neither the host nor another guest ${why}`,
  { timeout: 120_000 },
  async () => {
    await using outside = await outsideWorld()
    const server = createServer((_, response) => response.end('host')).listen(0, '0.0.0.0')
    await once(server, 'listening')
    using _closing = { [Symbol.dispose]: () => void server.close().closeAllConnections() }
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    await using host = await testAgent({ hypervisor: 'qemu', network: 'tap' })
    await using other = await testAgent({ hypervisor: 'qemu', network: 'tap' })
    await host.put({ vmId: 'neighbor', generation: 1, want: 'running', spec: testSpec() })
    await other.put({ vmId: 'stranger', generation: 1, want: 'running', spec: testSpec() })
    const neighbor = await host.until('neighbor', 'healthy', vm => vm.healthy)
    const stranger = await other.until('stranger', 'healthy', vm => vm.healthy)
    expect(neighbor.endpoint?.host).not.toBe(stranger.endpoint?.host)

    const gateway = neighbor.endpoint?.host.replace(/\d+$/, last => String(Number(last) - 1))
    const shut = [
      `${gateway}:${port}`,
      `${outside.hostAddress}:${port}`,
      ...[neighbor, stranger].map(({ endpoint }) => `${endpoint?.host}:8080`),
    ]
    const places = [...shut, outside.place]
    const spec = testSpec({ command: ['/bin/sh', '-c', tryAll(places)], healthCheckPath: null })
    await host.put({ vmId: 'prober', generation: 1, want: 'running', spec })
    const finished = async () => (await host.logs('prober')).some(({ line }) => line === 'done')
    await host.until('prober', 'running', vm => vm.state === 'running')
    await until(finished, { what: 'the probes', timeoutMs: 40_000 })
    const said = (await host.logs('prober')).map(({ line }) => line).filter(line => /^(open|shut) /.test(line))
    expect(said).toEqual([...shut.map(place => `shut ${place}`), `open ${outside.place}`])
  },
)

test.skipIf(process.getuid?.() !== 0)(
  'two agents of one host share no address and no tap, and taps without a VM are reclaimed (needs root)',
  async () => {
    await using one = await testDir()
    await using two = await testDir()
    // This agent stands for one that was killed: the test never closes it, and it never repairs its rules.
    const first = await tapNetwork({ dataDir: one.path, subnet: '10.213.0.0/16', healEveryMs: 1e9 })
    const second = await tapNetwork({ dataDir: two.path, subnet: '10.213.0.0/16' })
    const nics = [await first.connect('a', 80), await first.connect('b', 80), await second.connect('a', 80)]
    expect(new Set(nics.map(nic => nic.guest.ip)).size).toBe(3)
    expect(new Set(nics.map(nic => nic.tap)).size).toBe(3)
    expect(await first.connect('a', 80)).toEqual(nics[0])

    // a new agent starts, as after kill -9
    const again = await tapNetwork({ dataDir: one.path, subnet: '10.213.0.0/16' })
    await again.reclaim(new Set(['b']))
    expect(await again.connect('b', 80)).toEqual(nics[1])
    const taps = readdirSync('/sys/class/net')
    expect(taps).not.toContain(nics[0]?.tap)
    expect(taps).toEqual(expect.arrayContaining([nics[1]?.tap, nics[2]?.tap]))
    await again.release('b')
    await second.release('a')
    await again.close()
    await second.close()
    expect(await run('nft', ['list', 'tables'])).not.toMatch(
      new RegExp(`mote_[${slotOf(nics[0]?.tap)}${slotOf(nics[2]?.tap)}]$`, 'm'),
    )
  },
)

test.skipIf(why !== '')(
  `the slot of a deleted data directory is cleaned and reused, unless one of its VMs still runs ${why}`,
  async () => {
    const open = (dir: string) => tapNetwork({ dataDir: dir, subnet: '10.213.0.0/16', healEveryMs: 1e9 })
    await using kept = await testDir()
    const [unused, used] = [await testDir(), await testDir()]
    // Neither of the two agents is ever closed, like agents after kill -9.
    const nics = [
      await (await open(unused.path)).connect('a', 80),
      await (await open(used.path)).connect('a', 80),
    ] as const
    const [left, running] = [String(nics[0].tap), String(nics[1].tap)]
    const netdev = `tap,id=n,ifname=${running},script=no,downscript=no`
    const vmm = spawn('qemu-system-x86_64', ['-machine', 'none', '-nodefaults', '-display', 'none', '-netdev', netdev])
    await until(async () => (await readFile(`/sys/class/net/${running}/carrier`, 'utf8')).trim() === '1', {
      what: 'tap',
    })
    await unused[Symbol.asyncDispose]()
    await used[Symbol.asyncDispose]()

    // Other tests claim slots, too. So this agent, or an agent of another test, gets the free slot.
    const next = await open(kept.path)
    const nic = await next.connect('b', 80)
    await until(() => tapNames(left).length === 0, { what: 'its tap is removed' })
    await until(
      async () =>
        !(await run('nft', ['list', 'tables', 'inet'])).includes(`mote_${slotOf(left)}\n`) ||
        !(await guarded(left)).taps.includes(left),
      { what: 'its rules are removed' },
    )
    expect(slotOf(nic.tap)).not.toBe(slotOf(running))
    expect(tapNames(running)).toEqual([running])
    await next.release('b')
    await next.close()

    vmm.kill('SIGKILL')
    await once(vmm, 'exit')
    await removeTap(running)
    await run('nft', ['delete', 'table', 'inet', `mote_${slotOf(running)}`])
  },
)

/** Uids outside the range that agents allocate, which no user on the host has. */
const owners: ReadonlyMap<string, number> = new Map([
  ['a', 1_899_000_001],
  ['b', 1_899_000_002],
])
const ownerOf = (vmId: string) => owners.get(vmId)

/** Returns the chains of VMs and the elements of maps in the nft table of this tap's agent. */
async function guarded(tap: string | null | undefined) {
  const listing = parseListing(await run('nft', ['-j', 'list', 'table', 'inet', `mote_${slotOf(tap)}`]))
  return {
    chains: [...listing.chains.keys()].filter(name => /^(in|out)_/.test(name)).toSorted(),
    taps: [...new Set([...keysOf(listing, 'leaving_vms'), ...keysOf(listing, 'entering_vms')])],
    owners: [...(listing.elements.get('vmms') ?? [])].map(Number),
  }
}

test.skipIf(process.getuid?.() !== 0)(
  'after a crash, rules without a tap and the uid of a VM that was being removed are reclaimed (needs root)',
  async () => {
    await using dir = await testDir()
    const open = () => tapNetwork({ dataDir: dir.path, subnet: '10.213.0.0/16', healEveryMs: 1e9, ownerOf })
    const first = await open() // never closed, like an agent after kill -9
    const [gone, kept] = [await first.connect('a', 80), await first.connect('b', 80)]
    await run('ip', ['link', 'del', 'dev', String(gone.tap)])
    expect((await guarded(gone.tap)).owners).toHaveLength(2)

    const again = await open()
    await again.reclaim(new Set(['b']))
    expect(await guarded(kept.tap)).toEqual({
      chains: [`in_${kept.tap}`, `out_${kept.tap}`],
      taps: [kept.tap],
      owners: [owners.get('b')],
    })
    await again.release('b')
    await again.close()
  },
)

test.skipIf(process.getuid?.() !== 0)(
  "a VM's rules that cannot be removed block no other VM, and are removed with the VM's uid once possible (needs root)",
  async () => {
    await using dir = await testDir()
    let stuck = 'nothing'
    const runs: RunCommand = (program, args, options) =>
      program === 'nft' && String(options?.input).includes(stuck)
        ? Promise.reject(new Error(`${stuck} stays`))
        : run(program, args, options)
    const errors: unknown[] = []
    const network = await tapNetwork({
      dataDir: dir.path,
      subnet: '10.213.0.0/16',
      healEveryMs: 1e9,
      ownerOf,
      runs,
      onError: error => errors.push(error),
    })
    const [bad, good] = [await network.connect('a', 80), await network.connect('b', 80)]
    stuck = `delete chain inet mote_${slotOf(bad.tap)} in_${bad.tap}`
    await Promise.all(['a', 'b'].map(id => network.release(id)))
    const anew = await network.connect('b', 80)
    expect(anew.endpoint.host, 'its address was free').toBe(good.endpoint.host)
    await expect(network.connect('a', 80)).rejects.toThrow(stuck)
    expect(await guarded(bad.tap)).toMatchObject({ owners: expect.arrayContaining([owners.get('a')]) })
    expect(errors.length).toBeGreaterThan(0)
    stuck = 'nothing'
    await until(async () => (await guarded(bad.tap)).chains.every(name => !name.endsWith(String(bad.tap))), {
      what: 'another attempt',
    })
    expect(await guarded(good.tap)).toMatchObject({ taps: [good.tap], owners: [owners.get('b')] })
    await network.release('b')
    await network.close()
  },
)

test.skipIf(process.getuid?.() !== 0)(
  'a tap may exist before its rules, and held() resolves or rejects when loading the rules has ended (needs root)',
  async () => {
    await using dir = await testDir()
    let load = Promise.withResolvers<void>()
    const runs: RunCommand = async (program, args, options) => {
      if (program === 'nft' && String(options?.input).includes('add chain inet')) await load.promise
      return run(program, args, options)
    }
    load.resolve()
    const network = await tapNetwork({ dataDir: dir.path, subnet: '10.213.0.0/16', healEveryMs: 1e9, runs })
    const ahead = () => network.connect('a', 80, undefined, 'ahead')

    load = Promise.withResolvers()
    const nic = await ahead()
    expect(await ifindex(nic.tap)).toBeGreaterThan(0)
    expect((await guarded(nic.tap)).taps).toEqual([])
    load.reject(new Error('no rules today'))
    await expect(network.held('a')).rejects.toThrow('no rules today')

    load = Promise.withResolvers()
    expect(await ahead(), 'tried again').toEqual(nic)
    load.resolve()
    await network.held('a')
    expect((await guarded(nic.tap)).taps).toEqual([nic.tap])

    // A VM that is released while its rules are being loaded leaves no rules behind.
    load = Promise.withResolvers()
    const other = await network.connect('b', 80, undefined, 'ahead')
    const released = Promise.all(['a', 'b'].map(id => network.release(id)))
    load.resolve()
    await released
    await until(
      async () => (await guarded(other.tap)).taps.length === 0 && !existsSync(`/sys/class/net/${other.tap}`),
      {
        what: 'all resources are released',
      },
    )
    expect(network.guarded('b')).toBeUndefined()
    await network.close()
  },
)

const ifindex = async (tap: string | null | undefined) =>
  Number(await readFile(`/sys/class/net/${tap}/ifindex`, 'utf8'))

const slotOf = (tap: string | null | undefined) => tap?.at('mote'.length) ?? ''

/** Creates a network namespace with a web server behind a veth pair; it stands for the internet. */
async function outsideWorld() {
  const name = `moteout${process.pid}`
  const ip = (...args: string[]) => run('ip', args)
  await ip('netns', 'add', name)
  await ip('link', 'add', `vo${process.pid}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
  await ip('addr', 'add', '198.51.100.1/30', 'dev', `vo${process.pid}`)
  await ip('link', 'set', `vo${process.pid}`, 'up')
  for (const args of [
    ['addr', 'add', '198.51.100.2/30', 'dev', 'eth0'],
    ['link', 'set', 'eth0', 'up'],
    ['link', 'set', 'lo', 'up'],
  ]) {
    await ip('-n', name, ...args)
  }
  const web = "require('http').createServer((q,s)=>s.end('out')).listen(80,'198.51.100.2')"
  const child = spawn('ip', ['netns', 'exec', name, process.execPath, '-e', web], { stdio: 'ignore' })
  return {
    place: '198.51.100.2:80',
    hostAddress: '198.51.100.1',
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await run('ip', ['netns', 'del', name])
      await ip('link', 'del', `vo${process.pid}`).catch(() => undefined)
    },
  }
}

test.skipIf(process.getuid?.() !== 0)('VMs that start at once share no address (needs root)', async () => {
  await using dir = await testDir()
  const network = await tapNetwork({ dataDir: dir.path, subnet: '10.213.0.0/16' })
  // Only partly in `npm test`: six VMs cover the others, because each gets the next free address.
  const ids = Array.from({ length: runsAll ? 12 : 6 }, (_, n) => `vm-${n}`)
  const nics = await Promise.all(ids.map(id => network.connect(id, 80)))
  const before = await ifindex(nics[0]?.tap)
  await Promise.all(ids.map(id => network.release(id)))
  // A VM that starts again while it is removed waits for the removal, so its device and rules are new.
  const anew = await network.connect('vm-0', 80)
  expect(await ifindex(anew.tap)).toBeGreaterThan(before)
  expect(await run('nft', ['list', 'chain', 'inet', `mote_${slotOf(anew.tap)}`, `in_${anew.tap}`])).toContain('chain')
  await network.release('vm-0')
  await network.close()
  for (const { tap } of nics) expect(readdirSync('/sys/class/net')).not.toContain(tap)
  expect(new Set(nics.map(nic => nic.endpoint.host)).size).toBe(ids.length)
  expect(new Set(nics.map(nic => nic.mac)).size).toBe(ids.length)
})

test.skipIf(process.getuid?.() !== 0)(
  'addresses from the control plane are adopted as soon as no guest has an address of the earlier range, and survive a restart (needs root)',
  async () => {
    await using dir = await testDir()
    const open = () => tapNetwork({ dataDir: dir.path, subnet: null, healEveryMs: 1e9 })
    // Two address ranges that no other test on this host uses.
    const given = [1, 2].map(n => `10.${192 + (process.pid % 16)}.${((process.pid >> 4) % 7) * 32 + (n - 1) * 16}.0/20`)
    const [one = '', two = ''] = given
    const first = await open()
    expect(first.ipv4?.guests).toMatch(/^10\.213\./)
    expect(await first.adopt(one)).toBe(true)
    expect(await first.adopt(one), 'it has them').toBe(false)
    const nic = await first.connect('a', 80)
    expect(nic.endpoint.host.startsWith(one.replace(/\.0\/20$/, '.'))).toBe(true)
    expect([nic.guest.dns, first.probeFrom]).toEqual([first.resolver, first.ipv4?.gateway.replace(/\d+$/, '254')])
    expect(await first.adopt(two), 'a guest has an address of the old').toBe(false)

    const again = await open() // a new agent starts, as after kill -9
    expect(again.ipv4?.guests).toBe(one)
    await again.reclaim(new Set(['a']))
    expect((await again.connect('a', 80)).endpoint).toEqual(nic.endpoint)
    await again.release('a')
    expect(await again.adopt(two)).toBe(true)
    const own = Object.values(networkInterfaces()).flatMap(all => all ?? [])
    const busy = own.find(({ family, internal }) => family === 'IPv4' && !internal)
    if (busy) await expect(again.adopt(`${busy.address}/20`)).rejects.toThrow('MOTE_GUEST_SUBNET')
    expect(await run('ip', ['-4', 'address', 'show', 'dev', 'lo'])).not.toContain(` ${nic.guest.dns}/32`)
    await again.close()
  },
)
