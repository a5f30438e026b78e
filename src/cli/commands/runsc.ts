import { Command } from 'commander'
import { minutes } from '../../lib/duration.ts'
import { createTerminal } from '../progress.ts'
import { out } from '../terminal.ts'

export function runscCommands(): Command {
  const runsc = new Command('runsc').description("gVisor's runsc, which runs apps at native speed on hosts without KVM")
  runsc
    .command('install')
    .description('Install runsc on this host: the official release, or a build from its sources (1 to 5 minutes)')
    .option('--cache <dir>', 'cache directory of kernels and images (MOTE_CACHE)')
    .action(async (flags: { cache?: string }) => {
      const { installRunsc } = await import('../../agent/hypervisor/gvisor/install.ts')
      const { agentConfig } = await import('../../agent/base/config.ts')
      const terminal = createTerminal()
      const stop = new AbortController()
      process.once('SIGINT', () => stop.abort())
      const defaults = agentConfig({ dataDir: '.mote/agent', hostName: 'this' })
      const cacheDir = flags.cache ?? (process.env.MOTE_CACHE || defaults.cacheDir)
      const program = await terminal.step(
        'Installing runsc',
        () => installRunsc(cacheDir, line => terminal.line(line), stop.signal),
        minutes(2),
      )
      out(`${program}\nAgents on this host use it after their next start. Run mote doctor to check it.\n`)
    })
  return runsc
}
