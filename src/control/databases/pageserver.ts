/**
 * Client of the Neon page server's management API, limited to the calls that we use
 * (`pageserver/src/http/openapi_spec.yml`).
 */
import { type TSchema, type Static, Type } from 'typebox'
import { Value } from 'typebox/value'

const Timeline = Type.Object({
  tenant_id: Type.String(),
  timeline_id: Type.String(),
  last_record_lsn: Type.String(),
  current_logical_size: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  /** State of the timeline: `Active` once the page server serves it. Older page servers do not report it. */
  state: Type.Optional(Type.Unknown()),
})
export type Timeline = Static<typeof Timeline>

export class PageserverError extends Error {
  readonly status: number
  constructor(what: string, status: number, text: string) {
    super(`${what}: the page server answered ${status}: ${text.slice(0, 300)}`)
    this.name = 'PageserverError'
    this.status = status
  }
}

export interface Pageserver {
  /** Creates the tenant, or attaches it with a new generation. Idempotent. */
  attach(tenantId: string, generation: number, signal: AbortSignal): Promise<void>
  /**
   * Creates the first timeline of a tenant, or a branch of another timeline. An existing timeline is left unchanged.
   */
  createTimeline(tenantId: string, timeline: NewTimeline, signal: AbortSignal): Promise<Timeline>
  timeline(tenantId: string, timelineId: string, signal: AbortSignal): Promise<Timeline | undefined>
  /**
   * Deletes the timeline. Returns true once it is deleted, which takes several calls.
   * @throws PageserverError 412 while it has branches
   */
  deleteTimeline(tenantId: string, timelineId: string, signal: AbortSignal): Promise<boolean>
  deleteTenant(tenantId: string, signal: AbortSignal): Promise<boolean>
  /** Returns the log position of a timeline at an instant. */
  lsnAt(tenantId: string, timelineId: string, at: string, signal: AbortSignal): Promise<string>
}

export interface NewTimeline {
  readonly timelineId: string
  readonly version: number
  readonly ancestor?: { readonly timelineId: string; readonly lsn?: string }
}

const timeoutMs = 30_000

export function pageserver(baseUrl: string): Pageserver {
  const call = async (method: 'GET' | 'PUT' | 'POST' | 'DELETE', path: string, signal: AbortSignal, body?: object) => {
    const { request } = await import('undici')
    const { statusCode, body: answer } = await request(`${baseUrl}${path}`, {
      method,
      signal,
      headersTimeout: timeoutMs,
      ...(body ? { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : {}),
    })
    return { status: statusCode, text: await answer.text() }
  }
  const parse = <S extends TSchema>(schema: S, text: string): Static<S> => Value.Parse(schema, JSON.parse(text))
  const expect = (what: string, answer: { status: number; text: string }, ...ok: number[]) => {
    if (!ok.includes(answer.status)) throw new PageserverError(what, answer.status, answer.text)
    return answer
  }
  const of = (tenantId: string, timelineId = '') =>
    `/v1/tenant/${tenantId}/timeline${timelineId === '' ? '' : `/${timelineId}`}`

  const api: Pageserver = {
    async attach(tenantId, generation, signal) {
      const desired = { mode: 'AttachedSingle', generation, tenant_conf: {} }
      expect('attach', await call('PUT', `/v1/tenant/${tenantId}/location_config`, signal, desired), 200)
    },
    async createTimeline(tenantId, { timelineId, version, ancestor }, signal) {
      const from = ancestor
        ? {
            ancestor_timeline_id: ancestor.timelineId,
            ...(ancestor.lsn ? { ancestor_start_lsn: ancestor.lsn } : {}),
          }
        : { pg_version: version }
      const answer = await call('POST', of(tenantId), signal, { new_timeline_id: timelineId, ...from })
      if (answer.status === 201) return parse(Timeline, answer.text)
      // A page server responds 409 if an earlier attempt of the same request succeeded.
      const found = answer.status === 409 ? await api.timeline(tenantId, timelineId, signal) : undefined
      if (!found) throw new PageserverError('create timeline', answer.status, answer.text)
      return found
    },
    async timeline(tenantId, timelineId, signal) {
      const answer = await call('GET', of(tenantId, timelineId), signal)
      if (answer.status === 404) return undefined
      return parse(Timeline, expect('timeline', answer, 200).text)
    },
    async deleteTimeline(tenantId, timelineId, signal) {
      const answer = await call('DELETE', of(tenantId, timelineId), signal)
      return expect('delete timeline', answer, 202, 404, 409).status === 404
    },
    async deleteTenant(tenantId, signal) {
      const answer = await call('DELETE', `/v1/tenant/${tenantId}`, signal)
      expect('delete tenant', answer, 200, 202, 404, 409)
      return answer.status === 200 || answer.status === 404
    },
    async lsnAt(tenantId, timelineId, at, signal) {
      const query = new URLSearchParams({ timestamp: at })
      const answer = await call('GET', `${of(tenantId, timelineId)}/get_lsn_by_timestamp?${query}`, signal)
      return parse(Type.Object({ lsn: Type.String() }), expect('position of an instant', answer, 200).text).lsn
    },
  }
  return api
}
