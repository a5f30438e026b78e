import { Command } from 'commander'
import pc from 'picocolors'

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('What this machine can do, and how to fix the rest')
    .option('--json', 'as JSON')
    .action(async (flags: { json?: boolean }) => {
      const { inspectHost } = await import('../../agent/doctor.ts')
      const findings = await inspectHost()
      if (flags.json) process.stdout.write(`${JSON.stringify(findings)}\n`)
      else
        for (const { name, ok, detail, fix } of findings)
          process.stdout.write(`${ok ? pc.green('✓') : pc.red('✗')} ${name.padEnd(16)} ${detail}${ok || !fix ? '' : `\n    fix: ${fix}`}\n`)
    })
}
