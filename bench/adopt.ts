/**
 * Measures the time until a restarted agent has adopted its running VMs, compared with the time of a bare query to the
 * QMP socket of each QEMU.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { readlink } from 'node:fs/promises'
import { connectQmp } from '../src/agent/hypervisor/qemu/qmp.ts'
import { testAgent, testSpec, vmmsIn } from '../test/support/agent/agent.ts'
import { run } from '../src/lib/exec.ts'
import { type Benchmark, median } from './benchmark.ts'
import { builtChild } from './built.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { scaled } from './turns.ts'

const vms = Number(process.env['MOTE_BENCH_VMS'] ?? 8)
const rounds = 5

export const adopt: Benchmark = {
  name: 'adopt',
  goal: `a restarted agent adopts its ${vms} VMs within twice the time of querying each QMP socket, and 2 s`,
  covers: ['B18'],
  how: `${vms} real VMs run. The agent is stopped (the VMs continue) and another one is started on its directory; measured until it reports every VM as running and healthy. The lower limit is measured while no agent is connected: connect to all QMP sockets in parallel and query the status.`,
  reading: `The goal is for 100 VMs; two cores can emulate ${vms}. A new agent also reads its directory, probes its hypervisors, connects to four sockets of each VM and waits for the first health check of each app over the emulated network. The QMP query is one round trip to a running process; a Node program that does only this is shown for comparison. Of the 200 ms, some 60 are spent on nft and ip (the kernel's delays when rules are loaded), 20 on the search for strays, and 100 on waiting for the answers of the guests.`,
  unable: missingForVms,
  async run(report) {
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    await using host = await testAgent({ hypervisor: 'qemu', network, maxBoots: 2 })
    const ids = Array.from({ length: vms }, (_, n) => `vm-${n}`)
    for (const vmId of ids) await host.put({ vmId, generation: 1, want: 'running', spec: testSpec() })
    for (const vmId of ids) await host.until(vmId, 'healthy', vm => vm.healthy)
    const dirs = await Promise.all((await vmmsIn(host.config.dataDir)).map(pid => readlink(`/proc/${pid}/cwd`)))
    const ask = async (dir: string) => {
      const qmp = await connectQmp(dir, 'qmp.sock')
      await qmp.execute('query-status')
      qmp.close()
    }
    const asker = await builtChild('ask-child.ts')
    const program: number[] = []
    const adopted: number[] = []
    const asked: number[] = []
    for (let round = 0; round < scaled(rounds); round++) {
      await host.agent.stop()
      const beganRaw = performance.now()
      await Promise.all(dirs.map(ask))
      asked.push(performance.now() - beganRaw)
      const beganProgram = performance.now()
      await run(process.execPath, [asker, ...dirs])
      program.push(performance.now() - beganProgram)
      const began = performance.now()
      await host.restart()
      while (!(await Promise.all(ids.map(vmId => host.get(vmId)))).every(vm => vm.healthy)) await pause(2)
      adopted.push(performance.now() - began)
    }
    report.samples(`start of the agent until ${vms} VMs are healthy`, 'ms', adopted)
    report.samples(`${vms} QMP sockets asked`, 'ms', asked)
    report.samples(`a bare Node program that asks ${vms} QMP sockets, from its start to its end`, 'ms', program)
    report.verdict(
      'time to adopt the VMs / time to query their QMP sockets (medians)',
      median(adopted) / median(asked),
      2,
    )
    report.verdict('time to adopt the VMs (median), s', median(adopted) / 1000, 2)
  },
}
