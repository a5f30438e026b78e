import { Command } from 'commander'
import { out } from '../terminal.ts'

const url = () => {
  const value = process.env.DATABASE_URL
  if (!value) throw new Error('set DATABASE_URL; `mote up` migrates its private server automatically')
  return value
}

export function schemaCommands(): Command {
  const db = new Command('schema').description('Database schema of the control plane')
  db.command('migrate')
    .description('Apply pending database migrations')
    .action(async () => {
      const { migrate } = await import('../../db/migrate.ts')
      const applied = await migrate({ url: url() })
      out(applied.length === 0 ? 'Nothing to do.\n' : `${applied.map(name => `applied ${name}`).join('\n')}\n`)
    })
  db.command('status')
    .description('Show which database migrations are applied')
    .option('--json', 'print the result as JSON')
    .action(async (flags: { json?: boolean }) => {
      const { migrationStatus } = await import('../../db/migrate.ts')
      const list = await migrationStatus({ url: url() })
      if (flags.json) out(`${JSON.stringify(list)}\n`)
      else
        for (const { name, state, appliedAt } of list)
          out(`${state.padEnd(8)} ${name} ${appliedAt?.toISOString() ?? ''}\n`)
    })
  return db
}
