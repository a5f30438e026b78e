/** HTTP/2 connections for gRPC, one per backend. */
import { type ClientHttp2Session, connect } from 'node:http2'
import type { Pool } from 'undici'
import { type BackendPools, type Target, originOf } from './backends.ts'

const connectTimeoutMs = 2000

export interface GrpcSessions {
  of(target: Target): ClientHttp2Session
}

export function createGrpcSessions(pools: BackendPools): GrpcSessions {
  const sessions = new WeakMap<Pool, ClientHttp2Session>()
  return {
    of(target) {
      const open = sessions.get(target.pool)
      if (open && !open.closed && !open.destroyed) return open
      const session = connect(originOf(target.backend))
      const late = Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' })
      const timer = setTimeout(() => session.destroy(late), connectTimeoutMs)
      const forget = pools.onCut(target, () => session.destroy())
      session
        .once('connect', () => clearTimeout(timer))
        .once('close', () => {
          clearTimeout(timer)
          forget()
        })
        // Ignore the error: the streams report it, but without a handler it would crash the process.
        .on('error', () => {})
      sessions.set(target.pool, session)
      return session
    },
  }
}
