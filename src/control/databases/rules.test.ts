import { describe, expect, it } from 'vitest'
import { backupDue, readRepository } from './backups.ts'
import {
  allowedSettings,
  type BranchFacts,
  type BranchPhase,
  branchStatusOf,
  checkSettings,
  configLines,
  hostOf,
  localPortOf,
  momentOf,
  shapeOf,
  statusOf,
  validOf,
} from './rules.ts'
import { scramVerifier } from './scram.ts'
import { backupStatusOf } from './view.ts'

const running: BranchFacts = {
  databaseWant: 'running',
  want: 'live',
  phase: 'running',
  restores: 0,
  restored: 0,
  readyAt: new Date(0),
  healthy: true,
  answers: true,
  passwordRevision: 2,
  database: { passwordRevision: 2 },
}

describe('the status of a database or branch', () => {
  const cases: [string, Partial<BranchFacts>][] = [
    ['running', {}],
    ['unavailable', { answers: false }],
    ['unavailable', { healthy: false }],
    ['unavailable', { passwordRevision: 1 }],
    ['creating', { phase: 'starting', readyAt: null }],
    ['creating', { phase: 'preparing', readyAt: null }],
    ['restarting', { phase: 'starting' }],
    ['restarting', { phase: 'halting' }],
    ['restoring', { restores: 1 }],
    ['restoring', { phase: 'rewinding', restores: 1 }],
    ['restarting', { phase: 'halting', databaseWant: 'suspended' }],
    ['suspended', { phase: 'resting', databaseWant: 'suspended' }],
    ['failed', { phase: 'failing' }],
    ['deleting', { want: 'deleted' }],
    ['deleting', { databaseWant: 'deleted', phase: 'failing' }],
  ]
  it.each(cases)('is %s for a database with %j', (status, change) =>
    expect(statusOf({ ...running, ...change })).toBe(status),
  )

  it.each(cases)(
    'is that of its database, with `ready` in place of `running`: %s for a branch with %j',
    (status, change) => expect(branchStatusOf({ ...running, ...change })).toBe(status === 'running' ? 'ready' : status),
  )

  it('is not running in any phase before a client could connect', () => {
    const phases: BranchPhase[] = ['preparing', 'starting', 'halting', 'keeping', 'rewinding', 'resting', 'failing']
    for (const phase of phases) expect(statusOf({ ...running, phase })).not.toBe('running')
    expect(branchStatusOf(running)).toBe('ready')
  })
})

describe('database settings', () => {
  it('are rendered as lines of postgresql.conf', () =>
    expect(configLines({ work_mem: '8MB', log_statement: 'ddl' })).toBe("log_statement = 'ddl'\nwork_mem = '8MB'"))

  it.each([
    'fsync',
    'full_page_writes',
    'archive_command',
    'archive_mode',
    'ssl',
    'hba_file',
    'shared_preload_libraries',
  ])('do not allow %s', name => expect(() => checkSettings({ [name]: 'off' })).toThrow(name))

  it.each(Object.keys(allowedSettings))('do not allow line breaks and quotes in %s', name => {
    for (const value of ["1'", '1\nfsync = off', '\\', '']) expect(() => checkSettings({ [name]: value })).toThrow(name)
  })
})

describe('the size and version of a requested database', () => {
  it('have defaults', () =>
    expect(shapeOf({ engine: 'postgres' }, [16, 15])).toMatchObject({ version: 16, vcpus: 1, memoryMib: 512 }))
})

describe('page server generations', () => {
  const known = [{ id: 'a'.repeat(32), gen: 3 }]
  it.each([
    [3, true],
    [2, false],
    [4, false],
  ])('are valid only if they are the current one: generation %i of 3 is valid: %s', (gen, valid) =>
    expect(validOf([{ id: 'a'.repeat(32), gen }], known)[0]?.valid).toBe(valid),
  )
  it('are not valid for a tenant that the control plane does not know', () =>
    expect(validOf([{ id: 'b'.repeat(32), gen: 3 }], known)[0]?.valid).toBe(false))
})

describe('the connection details of a database', () => {
  it('contain different host names for databases and branches', () => {
    expect(hostOf('shop', 'acme', undefined)).toBe('shop.acme.db.internal')
    expect(hostOf('shop', 'acme', 'trial')).toBe('trial.shop.acme.db.internal')
  })
  it('contain a local port that is always the same for the database', () => {
    const id = '0198c7e2-0000-7000-8000-0000000a1b2c'
    expect(localPortOf(id)).toBe(localPortOf(id))
    expect(localPortOf(id)).toBeGreaterThanOrEqual(20_000)
  })
  it("an instant is converted to PostgreSQL's format, and refused if it is in the future", () => {
    const now = new Date('2026-01-02T00:00:00Z')
    expect(momentOf('2026-01-01T12:00:00+01:00', now)).toBe('2026-01-01 11:00:00.000+00')
    expect(() => momentOf('2026-01-03T00:00:00Z', now)).toThrow('future')
    expect(() => momentOf('yesterday', now)).toThrow('instant')
  })
})

describe('a database backup', () => {
  const now = new Date('2026-01-02T00:00:00Z')
  const hoursAgo = (hours: number) => new Date(now.getTime() - hours * 3_600_000)
  const observed = (newestAt: Date | null, busy = false) => ({
    newestAt,
    backups: newestAt ? 1 : 0,
    sizeBytes: 0,
    busy,
  })
  const minuteAgo = new Date(now.getTime() - 60_000)

  it.each([
    ['is due if there is none', null, null, null, false, true],
    ['is not due while the first is running', hoursAgo(1), null, null, true, false],
    ['is not due if the first has just started', minuteAgo, null, null, false, false],
    ['is due if the first died with its VM', hoursAgo(1), null, null, false, true],
    ['is not due if the newest is recent', null, hoursAgo(3), null, false, false],
    ['is due if the newest is old', null, hoursAgo(25), null, false, true],
    ['is not due if the newest is old but the next is running', hoursAgo(1), hoursAgo(25), null, true, false],
    ['is due if the newest predates a restore', null, hoursAgo(3), hoursAgo(1), false, true],
  ] as const)('%s', (_, startedAt, newestAt, restoredAt, busy, due) =>
    expect(backupDue(observed(newestAt, busy), { startedAt, restoredAt, now }, 24)).toBe(due),
  )

  it('is listed in the output of pgBackRest', () => {
    const one = { type: 'full', error: false, timestamp: { start: 5, stop: 9 }, info: { repository: { delta: 100 } } }
    const status = { code: 0, message: 'ok', lock: { backup: { held: true } } }
    const stanza = { status, backup: [one, { ...one, timestamp: { start: 20, stop: 30 } }] }
    expect(readRepository(JSON.stringify([stanza]))).toEqual({
      newestAt: new Date(30_000),
      backups: 2,
      sizeBytes: 200,
      busy: true,
    })
    expect(readRepository('[]')).toEqual({ newestAt: null, backups: 0, sizeBytes: 0, busy: false })
  })

  it('is verified only after a restore drill', () => {
    const known = {
      branchId: '',
      newestAt: now,
      backups: 1,
      sizeBytes: 1,
      startedAt: null,
      error: null,
      drillBranchId: null,
      drillStartedAt: null,
      drilledAt: null,
      drillPassed: null,
      drillError: null,
    }
    expect(backupStatusOf(undefined)).toBe('pending')
    expect(backupStatusOf(known)).toBe('ready')
    expect(backupStatusOf({ ...known, drillPassed: true })).toBe('verified')
    expect(backupStatusOf({ ...known, drillPassed: false, drillError: 'x' })).toBe('failed')
  })
})

it('the SCRAM verifier equals that of the example in RFC 7677', async () => {
  // The example in RFC 7677: user `user`, password `pencil`, 4096 iterations.
  const salt = Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64')
  expect(await scramVerifier('pencil', salt)).toBe(
    'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
  )
})
