import { Command } from 'commander'
import { pc } from '../../programs/colours.ts'
import { createTerminal } from '../progress.ts'
import { out } from '../terminal.ts'

const marks = { yes: pc.green('✓'), limited: pc.yellow('~'), missing: pc.red('✗') } as const

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('Check this host and show how to fix problems; exits with 1 if real VMs cannot run')
    .option('--json', 'print the result as JSON')
    .action(async (flags: { json?: boolean }) => {
      const { agentConfig } = await import('../../agent/base/config.ts')
      const { inspectHost } = await import('../../agent/doctor.ts')
      const { mebibytesOf, programSettings, readSettings } = await import('../../programs/settings.ts')
      const { vmmProgramsOf } = await import('../../programs/vmm-programs.ts')
      const settings = readSettings({}, process.env)
      const config = agentConfig({
        dataDir: '.mote/agent',
        hostName: 'this',
        programs: vmmProgramsOf(settings),
        toolchainMib: mebibytesOf(programSettings.toolchainMib, settings.toolchainMib),
        ...(settings.cache ? { cacheDir: settings.cache } : {}),
      })
      const findings = await createTerminal().step('Checking this host', () => inspectHost(config))
      if (flags.json) out(`${JSON.stringify(findings)}\n`)
      else
        for (const { name, ok, detail, fix } of findings)
          out(`${marks[ok]} ${name.padEnd(18)} ${detail}${fix === null ? '' : `\n    fix: ${fix}`}\n`)
      if (findings.some(finding => finding.ok === 'missing')) process.exitCode = 1
    })
}
