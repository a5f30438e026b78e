import type { Deps } from '../base/deps.ts'
import { ApiError, forbidden, notFound } from '../http/errors.ts'
import { type Handlers, type ProjectAccess, feature } from '../http/operation.ts'
import { deleteProject } from './deletion.ts'
import { invitationHandlers } from './invitation-routes.ts'
import { memberHandlers } from './member-routes.ts'
import { atLeast, maxProjectsPerAccount, slugify } from './rules.ts'
import { projectOperations } from './schema.ts'
import { countOwnedLocked, createProject, project, projectsOf, renameProject } from './store.ts'
import { viewProject } from './view.ts'

type ProjectHandlers = Handlers<typeof projectOperations>

const projectHandlers = (deps: Pick<Deps, 'db' | 'config'>): ProjectHandlers => ({
  listProjects: {
    read: async ({ caller }) => (await projectsOf(deps.db, caller.userId, caller.boundProjectId)).map(viewProject),
  },
  createProject: {
    write: async ({ caller, body, audit }) => {
      if (caller.boundProjectId !== null) throw forbidden('This token is bound to a project and cannot create another.')
      return async tx => {
        const owned = await countOwnedLocked(tx, caller.userId)
        if (owned >= maxProjectsPerAccount) throw tooMany(owned)
        const slug = slugify(body.name)
        const made = await createProject(tx, {
          name: body.name,
          slug,
          plan: deps.config.defaultPlan,
          ownerId: caller.userId,
        })
        const details = { slug: made.slug, name: made.name }
        audit(
          { action: 'project.created', resourceType: 'project', resourceId: made.id, details },
          {
            userId: caller.userId,
            projectId: made.id,
          },
        )
        return viewProject(made)
      }
    },
  },
  getProject: {
    read: async ({ project: access }) => {
      const found = await project(deps.db, access.id)
      if (!found || found.want === 'deleted') throw notFound()
      return viewProject(found)
    },
  },
  updateProject: {
    write: async ({ project: access, body, audit }) => {
      assertRole(access, 'admin')
      return async tx => {
        const renamed = await renameProject(tx, access.id, body.name)
        if (!renamed) throw notFound()
        const details = { from: access.name, to: body.name }
        audit({ action: 'project.renamed', resourceType: 'project', resourceId: access.id, details })
        return viewProject(renamed)
      }
    },
  },
  deleteProject: {
    write: async ({ project: access, audit }) => {
      assertRole(access, 'owner')
      return async tx => {
        if (!(await deleteProject(tx, access.id))) throw notFound()
        audit({
          action: 'project.deleted',
          resourceType: 'project',
          resourceId: access.id,
          details: { slug: access.slug },
        })
        return { status: 'deleting' as const }
      }
    },
  },
})

export const projectsFeature = (deps: Pick<Deps, 'db' | 'config' | 'clock' | 'vault'>) =>
  feature(projectOperations, { ...projectHandlers(deps), ...invitationHandlers(deps), ...memberHandlers(deps) })

function assertRole(access: ProjectAccess, wanted: 'admin' | 'owner'): void {
  if (atLeast(access.memberRole, wanted)) return
  throw forbidden(`Only ${wanted === 'owner' ? 'an owner' : 'an admin or owner'} of the project may do this.`)
}

const tooMany = (used: number) =>
  new ApiError(
    'plan_limit_exceeded',
    `An account can own at most ${maxProjectsPerAccount} projects. Delete one first.`,
    { extra: { limit: 'max_projects', used, max: maxProjectsPerAccount } },
  )
