/**
 * Creates an account with its first project. The first account of an installation gets the role Admin
 * (`createAccount`).
 */
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { AuditNote } from '../http/operation.ts'
import { createProject, slugify } from '../projects/index.ts'
import * as store from './store.ts'

export interface NewPerson {
  /** Normalized. */
  readonly email: string
  readonly passwordHash: string
  readonly firstName: string | null
  readonly lastName: string | null
}

/** Adds one audit row for the new account. */
type Audit = (note: AuditNote, actor: { readonly userId: string; readonly projectId?: string }) => void

/** Returns the id of the new account; undefined if an account with the e-mail address exists. */
export async function addAccount(tx: Tx, person: NewPerson, plan: string, audit: Audit): Promise<string | undefined> {
  const id = newId()
  if (!(await store.createAccount(tx, { id, ...person }))) return undefined
  const local = person.email.split('@')[0] ?? person.email
  const project = await createProject(tx, { name: local, slug: slugify(local), plan, ownerId: id })
  audit({ action: 'account.created', resourceType: 'account', resourceId: id }, { userId: id })
  const details = { slug: project.slug }
  const note = { action: 'project.created', resourceType: 'project', resourceId: project.id, details }
  audit(note, { userId: id, projectId: project.id })
  return id
}
