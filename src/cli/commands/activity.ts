/** Commands that show what happened in a project: as sentences, and as the audit log. */
import { age, listing } from '../output.ts'
import { said, text, type Verb, verb, wholeNumber } from '../verb.ts'

export const activityCommands = () => [activity, audit].map(verb)

const limitFlag = ['-n, --limit <rows>', 'number of entries, at most 100 (default 30)'] as const

const activity: Verb = {
  usage: 'activity',
  says: 'Show who did what in the project, newest first',
  options: [limitFlag],
  example: 'mote activity\nmote activity --limit 100',
  async run({ client, flags }) {
    const query = { scope: 'project', limit: wholeNumber(flags, 'limit') ?? 30 } as const
    const { items, total } = await client.listAuditLogs({ query })
    const rows = items.map(one => [age(one.created_at), one.actor ?? 'Mote', one.summary])
    return said({ items, total }, listing(['AGE', 'WHO', 'WHAT'], rows, 'Nothing has happened yet.'))
  },
}

const audit: Verb = {
  usage: 'audit',
  says: 'Show the audit log, newest first',
  options: [['--action <name>', 'only entries with this action, such as app.create'], limitFlag],
  async run({ client, flags }) {
    const query = { action: text(flags, 'action'), limit: wholeNumber(flags, 'limit') ?? 30 }
    const { items, total } = await client.listAuditLogs({ query })
    const rows = items.map(one => [
      ...[one.created_at, one.actor ?? '', one.action, one.resource_type],
      ...[one.resource_id ?? '', one.ip_address ?? ''],
    ])
    const shown = listing(['AT', 'WHO', 'ACTION', 'ON', 'ID', 'FROM'], rows, 'Nothing matches.')
    return said({ items, total }, items.length < total ? `${shown}\n${total - items.length} more.` : shown)
  },
}
