/** Commands for managed databases. */
import { seconds } from '../../lib/duration.ts'
import type { Command } from 'commander'
import { confirmByName } from '../ask.ts'
import { untilBranchReady, untilRunning, untilSnapshotReady } from '../database-wait.ts'
import { logFlags, printLog } from '../log-stream.ts'
import { age, bytes, facts, listing, status } from '../output.ts'
import { noun, said, text, type Verb, wholeNumber } from '../verb.ts'
import { connect, connection, databaseOf, url } from './database-connect.ts'

export const databaseCommands = (): Command[] => [
  noun('db', 'Managed Postgres', [
    ...[list, create, update, connect, connection, url, logs, branches, branch, promote, removeBranch],
    ...[backups, snapshot, snapshots, restore, removeSnapshot, remove],
  ]),
]

const noWait = ['--no-wait', 'return without waiting for the result'] as const

const list: Verb = {
  usage: 'list',
  says: 'List databases with their status',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listDatabases()
    const rows = all.map(one => [
      ...[one.name, status(one.status), `${one.engine} ${one.postgres_version}`, `${one.vcpus} vCPU`],
      ...[`${one.memory_mib} MiB`, `${one.disk_mib} MiB`, age(one.created_at)],
    ])
    return said(
      all,
      listing(['NAME', 'STATUS', 'ENGINE', 'CPU', 'MEMORY', 'DISK', 'AGE'], rows, 'No databases: mote db create main'),
    )
  },
}

const create: Verb = {
  usage: 'create <name>',
  says: 'Create a database and wait until it is ready',
  options: [
    ['--version <major>', 'version of PostgreSQL'],
    ['--memory <mib>', 'memory of the database VM in MiB'],
    ['--vcpus <count>', 'vCPUs of the database VM'],
    ['--disk <mib>', 'size of the data disk in MiB'],
    noWait,
  ],
  example: 'mote db create main --version 15',
  async run(call) {
    const [name = ''] = call.args
    const body = {
      name,
      engine: 'postgres',
      postgres_version: wholeNumber(call.flags, 'version'),
      memory_mib: wholeNumber(call.flags, 'memory'),
      vcpus: wholeNumber(call.flags, 'vcpus'),
      disk_mib: wholeNumber(call.flags, 'disk'),
    }
    const made = await call.client.createDatabase({ body })
    if (call.flags.wait === false) return said(made, `Database ${name} is ${made.status}.`)
    const ready = await untilRunning(call, { what: `Creating ${name}` }, made.id)
    return said(ready, `Database ${name} is ready. Connect: mote db connect ${name}`)
  },
}

const branches: Verb = {
  usage: 'branches <database>',
  says: 'List the branches of a database',
  async run(call) {
    const all = await call.client.listDatabaseBranches({ id: (await databaseOf(call)).id })
    const rows = all.map(one => [one.branch_name, status(one.status), one.is_current ? 'yes' : '', age(one.created_at)])
    return said(all, listing(['BRANCH', 'STATUS', 'CURRENT', 'AGE'], rows, 'No branches.'))
  },
}

const logs: Verb = {
  usage: 'logs <database>',
  says: 'Show the server log of the current branch of a database',
  options: logFlags,
  async run(call) {
    const { id } = await databaseOf(call)
    return printLog(call, (query, options) => call.client.streamDatabaseLogs({ id, query }, options))
  },
}

const update: Verb = {
  usage: 'update <database> [setting=value...]',
  says: 'Suspend or resume a database, or change its size or settings, which restarts it',
  options: [
    ['--memory <mib>', 'memory of the database VM in MiB'],
    ['--vcpus <count>', 'vCPUs of the database VM'],
    ['--suspend', 'stop the VM of the database and keep its disks'],
    ['--resume', 'start the VM of a suspended database'],
  ],
  example: 'mote db update main work_mem=16MB --memory 2048',
  async run(call) {
    const settings = Object.fromEntries(
      call.rest.map(pair => {
        const at = pair.indexOf('=')
        if (at <= 0) throw new Error(`"${pair}" does not have the form setting=value`)
        return [pair.slice(0, at), pair.slice(at + 1)]
      }),
    )
    const body = {
      memory_mib: wholeNumber(call.flags, 'memory'),
      vcpus: wholeNumber(call.flags, 'vcpus'),
      settings: call.rest.length > 0 ? settings : undefined,
      suspended: call.flags.suspend === true ? true : call.flags.resume === true ? false : undefined,
    }
    const answer = await call.client.updateDatabase({ id: (await databaseOf(call)).id, body })
    return said(answer, `${answer.name} is ${answer.status}.`)
  },
}

const branch: Verb = {
  usage: 'branch <database> <name>',
  says: 'Create a branch of a database from a snapshot or a point in time, and wait until it is ready',
  options: [
    ['--from <snapshot>', 'snapshot that the branch starts from'],
    ['--at <instant>', 'point in time (RFC 3339) that the branch is restored to from the backups, or latest'],
    noWait,
  ],
  example: 'mote db branch main try-it --from before-upgrade',
  async run(call) {
    const [, name = ''] = call.args
    const body = { name, from_snapshot: text(call.flags, 'from'), at: text(call.flags, 'at') }
    const { id } = await databaseOf(call)
    const made = await call.client.createDatabaseBranch({ id, body })
    if (call.flags.wait === false) return said(made, `Branch ${name} is ${made.status}.`)
    const ready = await untilBranchReady(call, { what: `Creating the branch ${name}` }, id, name)
    return said(ready, `Branch ${name} is ready.`)
  },
}

const promote: Verb = {
  usage: 'promote <database> <branch>',
  says: 'Make a branch the current branch of its database',
  async run(call) {
    const [, branch_name = ''] = call.args
    const answer = await call.client.promoteDatabaseBranch({ id: (await databaseOf(call)).id, branch_name })
    return said(answer, `${branch_name} is the current branch.`)
  },
}

const removeBranch: Verb = {
  usage: 'delete-branch <database> <branch>',
  says: 'Delete a branch of a database, except the current one',
  async run(call) {
    const [, branch_name = ''] = call.args
    const answer = await call.client.deleteDatabaseBranch({ id: (await databaseOf(call)).id, branch_name })
    return said(answer, `Branch ${branch_name} is being deleted.`)
  },
}

const backups: Verb = {
  usage: 'backups <database>',
  says: 'Show the backups of a database and the result of the last restore drill',
  async run(call) {
    const info = await call.client.getDatabaseBackups({ id: (await databaseOf(call)).id })
    const checked = info.retention_valid ? 'yes' : 'not yet'
    return said(
      info,
      facts({ strategy: info.backup_strategy, recovery: info.recovery_mode, status: info.status, checked }),
    )
  },
}

const snapshot: Verb = {
  usage: 'snapshot <database> <name>',
  says: 'Take a backup snapshot of a database, and wait until it is ready',
  options: [noWait],
  async run(call) {
    const [, name = ''] = call.args
    const { id } = await databaseOf(call)
    const made = await call.client.createDatabaseSnapshot({ id, body: { name } })
    if (call.flags.wait === false) return said(made, `Snapshot ${name} is ${made.status}.`)
    const ready = await untilSnapshotReady(
      call,
      { what: `Taking the snapshot ${name}`, usualMs: seconds(10) },
      id,
      name,
    )
    return said(ready, `Snapshot ${name} is ready.`)
  },
}

const snapshots: Verb = {
  usage: 'snapshots <database>',
  says: 'List the backup snapshots of a database, newest first',
  async run(call) {
    const all = await call.client.listDatabaseSnapshots({ id: (await databaseOf(call)).id })
    const rows = all.map(one => [one.name, status(one.status), bytes(one.size_bytes), age(one.created_at)])
    return said(all, listing(['NAME', 'STATUS', 'SIZE', 'AGE'], rows, 'No snapshots.'))
  },
}

const restore: Verb = {
  usage: 'restore <database> <snapshot>',
  says: 'Roll a database back to a snapshot, and wait until it runs again; the previous state is retained as another snapshot',
  options: [['-y, --yes', 'skip the confirmation'], noWait],
  async run(call) {
    const database = await databaseOf(call)
    const [, snapshot_name = ''] = call.args
    if (call.flags.yes !== true) {
      const { agree } = await import('../ask.ts')
      if (!(await agree(`Roll ${database.name} back to ${snapshot_name}? Later changes are retained as a snapshot.`)))
        return { json: null, text: 'Nothing was changed.', code: 1 }
    }
    const answer = await call.client.restoreDatabase({ id: database.id, body: { snapshot_name } })
    if (call.flags.wait === false) return said(answer, answer.message)
    await untilRunning(call, { what: `Restoring from ${snapshot_name}`, usualMs: seconds(20) }, database.id)
    return said(answer, `${database.name} runs again. The previous state is retained as a snapshot.`)
  },
}

const removeSnapshot: Verb = {
  usage: 'delete-snapshot <database> <snapshot>',
  says: 'Delete a backup snapshot of a database',
  async run(call) {
    const [, snapshot_name = ''] = call.args
    const answer = await call.client.deleteDatabaseSnapshot({ id: (await databaseOf(call)).id, snapshot_name })
    return said(answer, answer.message)
  },
}

const remove: Verb = {
  usage: 'delete <database>',
  says: 'Delete a database with its branches and backups',
  options: [['-y, --yes', 'skip the confirmation']],
  async run(call) {
    const database = await databaseOf(call)
    await confirmByName('the database', database.name, call.flags.yes === true)
    await call.client.deleteDatabase({ id: database.id })
    return said(null, `Database ${database.name} is being deleted.`)
  },
}
