/** Measures the response time of `POST .../deploy` while ten VMs boot on a simulated host. */
import { startBenchCloud } from './cloud.ts'
import { type Benchmark, summarise } from './benchmark.ts'

const apps = 10
const rounds = 5

export const deployLatency: Benchmark = {
  name: 'deploy-latency',
  goal: 'the median answer to POST deploy in at most 50 ms while ten VMs boot',
  reading: 'On a busy computer the answer waits for CPU at every statement.',
  async run(report) {
    await using cloud = await startBenchCloud('fake')
    const names = Array.from({ length: apps }, (_, i) => `app-${i}`)
    for (const name of names) await cloud.client.createApp({ body: { name, git_url: '' } })
    const deploy = async (name: string, n: number) => {
      const began = performance.now()
      await cloud.client.deployApp({ app_name: name, body: { image: `example/app:${n}` } })
      return performance.now() - began
    }
    const alone = [await deploy(names[0] ?? '', 0)]
    const times: number[] = []
    // Each round deploys ten VMs one after another, so every deploy except the first one of the round overlaps with
    // booting VMs.
    for (let round = 1; round <= rounds; round++) for (const name of names) times.push(await deploy(name, round))
    report.samples('the very first deploy', 'ms', alone)
    report.verdict(
      'time of a deploy request while ten VMs boot (median), ms',
      report.samples('deploys while ten VMs boot', 'ms', times).median,
      50,
    )
    const atOnce = await Promise.all(names.map(name => deploy(name, rounds + 1)))
    report.samples('ten deploys at once', 'ms', atOnce)
    report.verdict('time of ten deploy requests that are sent at once (median), ms', summarise(atOnce).median, 150)
  },
}
