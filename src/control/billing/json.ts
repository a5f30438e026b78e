/** Reads the provider's JSON field by field. A missing field is null; a field of the wrong type throws `BadEvent`. */
import { BadEvent } from './provider.ts'

export type Json = Readonly<Record<string, unknown>>

export const isJson = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Parses a JSON object. @throws BadEvent if the text is not JSON or not an object */
export function parseObject(raw: Buffer): Json {
  let value: unknown
  try {
    value = JSON.parse(raw.toString('utf8'))
  } catch (cause) {
    throw new BadEvent('not JSON', { cause })
  }
  if (!isJson(value)) throw new BadEvent('not an object')
  return value
}

const required = <T>(name: string, value: T | null): T => {
  if (value === null) throw new BadEvent(`${name} is missing`)
  return value
}

export function maybeText(from: Json, name: string): string | null {
  const value = from[name]
  if (value === undefined || value === null) return null
  if (typeof value !== 'string' || value.includes('\0')) throw new BadEvent(`${name} is not text`)
  return value
}
export const text = (from: Json, name: string): string => required(name, maybeText(from, name))

export function maybeObject(from: Json, name: string): Json | null {
  const value = from[name]
  if (value === undefined || value === null) return null
  if (!isJson(value)) throw new BadEvent(`${name} is not an object`)
  return value
}
export const object = (from: Json, name: string): Json => required(name, maybeObject(from, name))

/** Returns those elements of a list that are objects. */
export function objects(from: Json, name: string): readonly Json[] {
  const value = from[name]
  return Array.isArray(value) ? value.filter(isJson) : []
}

/** Reads an integer of at most 32 bits: the API declares amounts as int32. */
export function maybeInteger(from: Json, name: string): number | null {
  const value = from[name]
  if (value === undefined || value === null) return null
  if (typeof value !== 'number' || !Number.isInteger(value) || Math.abs(value) > 2_147_483_647)
    throw new BadEvent(`${name} is not a whole number of 32 bits`)
  return value
}

export const isTrue = (from: Json, name: string): boolean => from[name] === true

/** RFC 3339. */
export function maybeInstant(from: Json, name: string): Date | null {
  const value = maybeText(from, name)
  if (value === null) return null
  const at = new Date(value)
  if (Number.isNaN(at.getTime())) throw new BadEvent(`${name} is not an instant`)
  return at
}
export const instant = (from: Json, name: string): Date => required(name, maybeInstant(from, name))

/** Reads a time given in seconds since 1970; null if the field is missing. */
export function maybeUnixTime(from: Json, name: string): Date | null {
  const seconds = maybeInteger(from, name)
  return seconds === null ? null : new Date(seconds * 1000)
}
export const unixTime = (from: Json, name: string): Date => required(name, maybeUnixTime(from, name))

/** Returns the plan in the metadata of a billing product; null if the metadata names none. */
export function planIn(product: Json): string | null {
  const value = maybeObject(product, 'metadata')?.['mote_plan']
  return typeof value === 'string' ? value : null
}
