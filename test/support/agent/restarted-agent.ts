/**
 * Program that runs an agent with gVisor once, in a mount namespace as under systemd. The first run creates a VM with a
 * volume. The second run adopts the VM, attaches another volume, and removes everything. Prints its observations as
 * JSON.
 */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../../../src/lib/exec.ts'
import { testAgent, testSpec } from './agent.ts'
import { vmmPrograms } from './hypervisor.ts'
import { until } from '../wait.ts'

export interface Seen {
  /** Names of the files on the attached volumes, as the guest sees them. */
  readonly volumes: readonly string[]
  /** Names of the files on the second volume, read from its image file after the VM has stopped. */
  readonly inFile?: readonly string[]
  /** Size of the first volume after it has grown. */
  readonly grownMib: number
  readonly restarts: number
  readonly namespaces: readonly string[]
}

const [start = '', dataDir = '', runsc = ''] = process.argv.slice(2)
const host = await testAgent({
  hypervisor: 'gvisor',
  network: 'tap',
  dataDir,
  programs: { ...vmmPrograms, runsc },
})
const vmId = 'vm-1'
const disk = (n: number) => ({
  volumeId: `vol-${n}`,
  pool: 'local',
  generation: 1,
  sizeMib: 32,
  mountPoint: `/v${n}`,
  readOnly: false,
})
const put = (generation: number, disks: readonly ReturnType<typeof disk>[]) =>
  host.put({ vmId, generation, want: 'running', spec: testSpec({ hypervisor: 'gvisor', disks: [...disks] }) })
const attached = (count: number) =>
  host.until(vmId, 'attached', vm => vm.healthy && vm.disks?.filter(one => one.state === 'attached').length === count)

await host.volume({ volumeId: `vol-${start}` })
await put(Number(start), start === '1' ? [disk(1)] : [disk(1), disk(2)])
const vm = await attached(Number(start))
const sh = async (script: string) => (await host.exec(vmId, ['/bin/sh', '-c', script])).stdout
await sh(`echo ${start} > /v${start}/written`)
const grown = async () => {
  const { sizeMib } = await host.volume({ volumeId: 'vol-1', generation: 2, sizeMib: 64 })
  return sizeMib === 64
}
await until(grown, { what: 'the volume has grown' })
const volumes = (await sh(`cd /; ls v*`)).split(/\s+/).filter(Boolean)
let inFile: readonly string[] | undefined
if (start === '2') {
  const spec = testSpec({ hypervisor: 'gvisor', disks: [disk(1), disk(2)] })
  await host.put({ vmId, generation: 3, want: 'stopped', spec })
  await host.until(vmId, 'closed', one => one.disks === undefined)
  const listed = await run('debugfs', ['-R', 'ls -p /', join(dataDir, 'volumes/local/vol-2.raw')])
  inFile = [...listed.matchAll(/\/([a-z+]+)\//g)].map(([, name = '']) => name)
  await put(4, [])
  await host.until(vmId, 'detached', one => one.state === 'running' && one.disks === undefined)
  await host[Symbol.asyncDispose]()
} else await host.agent.stop()
const seen: Seen = {
  volumes,
  ...(inFile ? { inFile } : {}),
  grownMib: 64,
  restarts: vm.restartCount,
  namespaces: readdirSync('/run/netns'),
}
writeFileSync(process.stdout.fd, `${JSON.stringify(seen)}\n`)
process.exit()
