import { SMTPServer } from 'smtp-server'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeEachPostgres } from '../../../test/support/database.ts'
import { type Identity, type Person, startIdentity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { ApiError } from '../http/errors.ts'
import { type Notice, notificationMails, notify, planLimitNotices, smtpSender } from './index.ts'

const never = new AbortController().signal
const events = statement<{ data: { user_id: string } }>(
  'test.events',
  `SELECT data FROM event WHERE project_id = $1 AND kind = 'notification' ORDER BY seq`,
)

async function projectOf(api: Identity, person: Person): Promise<string> {
  return (await api.call('GET', '/v1/projects', { token: person.token })).body[0].id
}

const notice = (projectId: string, more: Partial<Notice> = {}): Notice => ({
  projectId,
  kind: 'deployment.failed',
  title: 'It failed',
  body: 'The last lines of the log.',
  entityName: 'shop',
  resourceId: 'some-id',
  route: '/apps/shop',
  ...more,
})

describeEachPostgres('notifications', which => {
  let api: Identity
  beforeAll(async () => {
    api = await startIdentity({ postgres: which })
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  it('are listed newest first with a count of unread ones, and can be marked as read one by one or all at once', async () => {
    const person = await api.person()
    const projectId = await projectOf(api, person)
    for (const title of ['a', 'b', 'c']) await api.deps.db.tx(tx => notify(tx, notice(projectId, { title })))
    const token = person.token
    const first = await api.call('GET', '/v1/notifications?limit=2', { token })
    expect(first.body).toMatchObject({ unread_count: 3, has_more: true, next_offset: 2 })
    expect(first.body['notifications'].map((n: { title: string }) => n.title)).toEqual(['c', 'b'])
    expect(first.body['notifications'][0]).toMatchObject({ tenant_id: projectId, user_id: person.id, is_read: false })
    const rest = await api.call('GET', '/v1/notifications?limit=2&offset=2', { token })
    expect(rest.body).toMatchObject({ has_more: false, next_offset: 3 })

    const id = first.body['notifications'][0].id
    expect((await api.call('POST', `/v1/notifications/${id}/read`, { token })).status).toBe(200)
    expect((await api.call('POST', `/v1/notifications/${id}/read`, { token })).status).toBe(200)
    const unread = await api.call('GET', '/v1/notifications?unread_only=true', { token })
    expect(unread.body['notifications'].map((n: { title: string }) => n.title)).toEqual(['b', 'a'])
    await api.call('POST', '/v1/notifications/read-all', { token })
    expect((await api.call('GET', '/v1/notifications', { token })).body['unread_count']).toBe(0)
  })

  it('are hidden from other users', async () => {
    const [owner, stranger] = [await api.person(), await api.person()]
    const projectId = await projectOf(api, owner)
    await api.deps.db.tx(tx => notify(tx, notice(projectId)))
    const list = await api.call('GET', '/v1/notifications', { token: owner.token })
    const id = list.body['notifications'][0].id
    expect((await api.call('POST', `/v1/notifications/${id}/read`, { token: stranger.token })).status).toBe(404)
    await api.call('POST', '/v1/notifications/read-all', { token: stranger.token })
    expect((await api.call('GET', '/v1/notifications', { token: owner.token })).body['unread_count']).toBe(1)
  })

  it('are sent once per hour and limit to a project that reaches a plan limit', async () => {
    const { db, clock, log } = api.deps
    const owner = await api.person()
    const projectId = await projectOf(api, owner)
    const refuse = planLimitNotices({ db, clock, log })
    // Stands for a second control plane, whose cache of sent notifications is empty.
    const other = planLimitNotices({ db, clock, log })
    const refusal = (limit: string) => ({
      error: new ApiError('plan_limit_exceeded', 'Too many.', { extra: { limit, used: 3, max: 3 } }),
      userId: owner.id,
      projectId,
    })
    await Promise.all(Array.from({ length: 10 }, (_, i) => (i % 2 ? refuse : other)(refusal('max_apps'))))
    await other(refusal('max_apps'))
    await refuse(refusal('max_volumes'))
    await refuse({ ...refusal('x'), error: new ApiError('forbidden', 'No.') })
    const { body } = await api.call('GET', '/v1/notifications', { token: owner.token })
    expect(body['notifications'].map((n: { kind: string; metadata: object }) => [n.kind, n.metadata])).toEqual([
      ['plan.limit_reached', { limit: 'max_volumes', used: 3, max: 3 }],
      ['plan.limit_reached', { limit: 'max_apps', used: 3, max: 3 }],
    ])
    await db.run(statement('test.hourAgo', `UPDATE notification SET created_at = created_at - interval '61 minutes'`))
    await planLimitNotices({ db, clock, log })(refusal('max_apps'))
    expect((await api.call('GET', '/v1/notifications', { token: owner.token })).body['unread_count']).toBe(3)
  })

  it('are written although the transaction of the refused request is rolled back', async () => {
    const owner = await api.person()
    const projectId = await projectOf(api, owner)
    await api.deps.db.run(statement('test.freePlan', `UPDATE project SET plan = 'free' WHERE id = $1`), [projectId])
    const slug = (await api.call('GET', '/v1/projects', { token: owner.token })).body[0].tenant_id
    const invite = () =>
      api.call('POST', `/v1/projects/${slug}/members`, {
        token: owner.token,
        body: { email: 'guest@example.com', role: 'viewer' },
      })
    const refused = await invite()
    expect(refused.body).toMatchObject({ status: 403, code: 'plan_limit_exceeded' })
    await invite()
    const { body } = await api.call('GET', '/v1/notifications', { token: owner.token })
    expect(body['notifications']).toMatchObject([
      { kind: 'plan.limit_reached', route: '/billing', body: refused.body['error'] },
    ])
  })

  it('publish one event per recipient in the same transaction', async () => {
    const person = await api.person()
    const projectId = await projectOf(api, person)
    await api.deps.db.tx(tx => notify(tx, notice(projectId)))
    const failing = api.deps.db.tx(async tx => {
      await notify(tx, notice(projectId))
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow('rolled back')
    const rows = await api.deps.db.rows(events, [projectId])
    expect(rows.map(row => row.data.user_id)).toEqual([person.id])
  })
})

interface Mailbox extends AsyncDisposable {
  readonly url: string
  readonly mails: string[]
  /** If set, the simulated mail server refuses mails with this SMTP code. */
  refuseWith: number | undefined
}

async function startMailbox(): Promise<Mailbox> {
  const mails: string[] = []
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    onData(stream, _session, callback) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        if (box.refuseWith !== undefined) {
          callback(Object.assign(new Error('not now'), { responseCode: box.refuseWith }))
          return
        }
        mails.push(Buffer.concat(chunks).toString())
        callback()
      })
    },
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const address = server.server.address()
  if (address === null || typeof address === 'string') throw new Error('BUG: no port')
  const box: Mailbox = {
    url: `smtp://127.0.0.1:${address.port}`,
    mails,
    refuseWith: undefined,
    [Symbol.asyncDispose]: () => new Promise<void>(resolve => server.close(() => resolve())),
  }
  return box
}

describe('e-mails of notifications', () => {
  it("are sent once by SMTP, and only if the user's settings allow it", async () => {
    await using box = await startMailbox()
    await using api = await startIdentity()
    const person = await api.person('reader@example.com')
    const projectId = await projectOf(api, person)
    const sweep = notificationMails(api.deps, smtpSender(box.url, 'Mote <mote@example.com>'))
    const run = () => sweep.run({ signal: never, now: api.clock.now() })

    await api.deps.db.tx(tx => notify(tx, notice(projectId, { title: 'Broken\r\nBcc: evil@example.com' })))
    await api.deps.db.tx(tx => notify(tx, notice(projectId, { kind: 'deployment.live' })))
    await api.deps.db.tx(tx => notify(tx, notice(projectId, { kind: 'product.news' })))
    expect(await run()).toEqual({ sent: 1, postponed: 0, failed: 0 })
    expect(await run()).toEqual({ sent: 0, postponed: 0, failed: 0 })
    expect(box.mails).toHaveLength(1)
    expect(box.mails[0]).toMatch(/^To: reader@example.com$/m)
    expect(box.mails[0]).toMatch(/^Subject: Broken Bcc: evil@example.com\r?$/m)
    expect(box.mails[0]).not.toMatch(/^Bcc:/m)

    const off = { email_notifications: false, marketing_emails: true }
    await api.call('PUT', '/v1/auth/me', { token: person.token, body: off })
    await api.deps.db.tx(tx => notify(tx, notice(projectId)))
    await api.deps.db.tx(tx => notify(tx, notice(projectId, { kind: 'product.news', title: 'News' })))
    expect(await run()).toEqual({ sent: 1, postponed: 0, failed: 0 })
    expect(box.mails[1]).toMatch(/^Subject: News/m)
  })

  it('for announcements are sent only to accounts with marketing_emails, while every account gets the notification', async () => {
    await using box = await startMailbox()
    await using api = await startIdentity()
    const admin = await api.person('admin@example.com')
    const [reader, other] = [await api.person('reader@example.com'), await api.person('other@example.com')]
    const desired = (person: Person, marketing_emails: boolean) =>
      api.call('PUT', '/v1/auth/me', { token: person.token, body: { marketing_emails } })
    await desired(reader, true)
    await desired(admin, false)
    await desired(other, false)
    const body = { title: 'Volumes move', body: 'Between hosts, while they run.' }
    const announce = ({ token }: Person) => api.call('POST', '/v1/admin/announcements', { token, body })
    expect((await announce(reader)).status).toBe(403)
    expect(await announce(admin)).toMatchObject({ status: 200, body: { status: 'sent', recipients: 3 } })
    const sweep = notificationMails(api.deps, smtpSender(box.url, 'Mote <mote@example.com>'))
    expect(await sweep.run({ signal: never, now: api.clock.now() })).toEqual({ sent: 1, postponed: 0, failed: 0 })
    expect(box.mails[0]).toMatch(/^To: reader@example.com$/m)
    for (const { token } of [admin, reader, other]) {
      const { notifications } = (await api.call('GET', '/v1/notifications', { token })).body
      expect(notifications[0]).toMatchObject({ ...body, kind: 'product.news', is_read: false })
    }
  })

  it('are retried after a temporary refusal, and given up after a permanent one', async () => {
    await using box = await startMailbox()
    await using api = await startIdentity()
    const projectId = await projectOf(api, await api.person())
    const sweep = notificationMails(api.deps, smtpSender(box.url, 'mote@example.com'))
    const run = () => sweep.run({ signal: never, now: api.clock.now() })
    await api.deps.db.tx(tx => notify(tx, notice(projectId)))
    box.refuseWith = 451
    expect(await run()).toEqual({ sent: 0, postponed: 1, failed: 0 })
    expect(await run()).toEqual({ sent: 0, postponed: 0, failed: 0 })
    api.clock.advance(61_000)
    box.refuseWith = undefined
    expect(await run()).toEqual({ sent: 1, postponed: 0, failed: 0 })

    await api.deps.db.tx(tx => notify(tx, notice(projectId)))
    box.refuseWith = 550
    expect(await run()).toEqual({ sent: 0, postponed: 0, failed: 1 })
    api.clock.advance(48 * 3_600_000)
    expect(await run()).toEqual({ sent: 0, postponed: 0, failed: 0 })
  })
})
