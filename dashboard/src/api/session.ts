/**
 * The session (docs/dashboard.md, "Tokens"). The access token lives in memory. On unload, a page passes the access
 * token on to the next page in the tab, so that a reload needs no refresh: refresh tokens work only once, so a refresh
 * that the reload interrupts would end every session. All tabs share the refresh token, and only one tab at a time may
 * use it (Web Locks).
 */
import { newKey, type RefreshResponse } from '@mote/client'
import { createStore } from './store.ts'

type Tokens = RefreshResponse
type Message = { readonly kind: 'tokens'; readonly token: string } | { readonly kind: 'out' } | { readonly kind: 'ask' }

const refreshKey = 'mote.refresh'
/**
 * Storage key for the Idempotency-Key of a token refresh that has no response yet. The next page load repeats the
 * request with it.
 */
const pendingKey = 'mote.refresh_pending'
const handoverKey = 'mote.handover'
/** How long a new tab waits for an access token from another tab. */
const askMs = 80

/** Web Locks need https or localhost. Without them, each tab keeps its own refresh token. */
const isShared = 'locks' in navigator
const channel = new BroadcastChannel('mote.session')
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a BroadcastChannel has a single origin
const say = (message: Message) => channel.postMessage(message)

export type SessionState = 'starting' | 'in' | 'out'
export const sessionState = createStore<SessionState>('starting')

let accessToken: string | undefined
let ownRefreshToken: string | undefined

const refreshToken = () => (isShared ? (localStorage.getItem(refreshKey) ?? undefined) : ownRefreshToken)

function keep({ token, refresh_token }: Tokens): void {
  if (isShared) localStorage.setItem(refreshKey, refresh_token)
  else ownRefreshToken = refresh_token
  localStorage.removeItem(pendingKey)
  enter(token)
  say({ kind: 'tokens', token })
}

function enter(token: string): void {
  accessToken = token
  sessionState.set('in')
}

function forget(): void {
  accessToken = undefined
  ownRefreshToken = undefined
  localStorage.removeItem(refreshKey)
  localStorage.removeItem(pendingKey)
  sessionState.set('out')
}

export const currentToken = () => accessToken
export const signedIn = keep

/** Returns the id of the signed-in account, the `sub` claim of the JWT (RFC 7519, 4.1.2). Empty without a session. */
export function currentPerson(): string {
  const payload = accessToken?.split('.')[1]
  if (!payload) return ''
  const claims: unknown = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/')))
  const subject: unknown = typeof claims === 'object' && claims !== null ? Reflect.get(claims, 'sub') : undefined
  return typeof subject === 'string' ? subject : ''
}

/** Signs out every tab. @returns the refresh token to revoke */
export function signOut(): string | undefined {
  const token = refreshToken()
  forget()
  say({ kind: 'out' })
  return token
}

/**
 * Resumes the session of the previous page.
 * @param refresh exchanges a refresh token; undefined if the server rejected it
 */
export async function startSession(refresh: Refresh): Promise<void> {
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
    if (data.kind === 'out') forget()
    if (data.kind === 'tokens') enter(data.token)
    if (data.kind === 'ask' && accessToken) say({ kind: 'tokens', token: accessToken })
  })
  // `pagehide` fires on unload, also if the page goes into the back/forward cache.
  addEventListener('pagehide', () => {
    if (accessToken) sessionStorage.setItem(handoverKey, JSON.stringify({ accessToken, ownRefreshToken }))
  })
  addEventListener('pageshow', () => sessionStorage.removeItem(handoverKey))
  takeOver()
  if (accessToken) return sessionState.set('in')
  if (refreshToken() === undefined) return sessionState.set('out')
  await askOthers()
  if (accessToken) return
  await renew(undefined, refresh)
}

function takeOver(): void {
  const text = sessionStorage.getItem(handoverKey)
  sessionStorage.removeItem(handoverKey)
  const left: unknown = text === null ? undefined : JSON.parse(text)
  if (typeof left !== 'object' || left === null) return
  const [access, refresh]: unknown[] = [Reflect.get(left, 'accessToken'), Reflect.get(left, 'ownRefreshToken')]
  // A missing refresh token means that another tab signed out while this page was reloading.
  if (isShared && refreshToken() === undefined) return
  if (typeof access === 'string') accessToken = access
  if (typeof refresh === 'string') ownRefreshToken = refresh
}

async function askOthers(): Promise<void> {
  say({ kind: 'ask' })
  const deadlineMs = performance.now() + askMs
  while (!accessToken && performance.now() < deadlineMs) await new Promise(resolve => setTimeout(resolve, 10))
}

export type Refresh = (refreshToken: string, idempotencyKey: string) => Promise<Tokens | undefined>

/**
 * Replaces an access token that the server rejected. One tab at a time refreshes; tabs that waited for it use the new
 * token.
 * @returns whether there is a valid token now
 */
export async function renew(refused: string | undefined, refresh: Refresh): Promise<boolean> {
  const exchange = async () => {
    if (accessToken && accessToken !== refused) return true
    const token = refreshToken()
    const fresh = token === undefined ? undefined : await refresh(token, repeatableKey())
    if (fresh) keep(fresh)
    else forget()
    return fresh !== undefined
  }
  if (!isShared) return (running ??= exchange().finally(() => (running = undefined)))
  return navigator.locks.request('mote.refresh', exchange)
}

function repeatableKey(): string {
  const pending = isShared ? localStorage.getItem(pendingKey) : null
  const key = pending ?? newKey()
  if (isShared) localStorage.setItem(pendingKey, key)
  return key
}

let running: Promise<boolean> | undefined
