import { operations } from '../http/operation.ts'
import { acknowledgement, displayName, list, resource } from '../http/types.ts'
import { memberOperations } from './member-schema.ts'
import { Project, params } from './resources.ts'

const shared = { tag: 'Projects', auth: 'bearer' } as const

const ownOperations = operations({
  listProjects: {
    method: 'GET',
    path: '/v1/projects',
    summary: 'List projects',
    description:
      'Lists the projects that the account is a member of, newest first. For a token that is bound to a project, the list contains only that project.',
    ...shared,
    scope: 'read',
    project: 'none',
    list: { order: ['-id'], filters: ['name'] },
    answer: list(Project),
  },
  createProject: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/projects',
    summary: 'Create a project',
    description:
      'Creates a project with its own private network. The caller becomes the owner of the project. The slug is derived from the name, with a random suffix if the slug is taken, and never changes. An account can own at most 100 projects.',
    ...shared,
    scope: 'admin',
    project: 'none',
    body: resource(
      'CreateProjectRequest',
      {
        name: displayName({
          description:
            'Display name of the project, shown in the dashboard and in notifications. It need not be unique.',
          examples: ['Acme'],
        }),
      },
      { description: 'Name of a new project.' },
    ),
    answer: Project,
  },
  getProject: {
    method: 'GET',
    path: '/v1/projects/{tenant_slug}',
    summary: 'Get a project',
    description: 'Returns one project. Responds with 404 if the caller is not a member of the project.',
    ...shared,
    scope: 'read',
    project: 'path',
    params,
    answer: Project,
  },
  updateProject: {
    method: 'PATCH',
    path: '/v1/projects/{tenant_slug}',
    summary: 'Rename a project',
    description:
      'Changes the display name. The slug stays the same, and therefore all URLs and host names. Only for admins and owners of the project.',
    ...shared,
    scope: 'admin',
    project: 'path',
    params,
    body: resource(
      'UpdateProjectRequest',
      {
        name: displayName({ description: 'New display name.', examples: ['Acme'] }),
      },
      { description: 'New name of a project.' },
    ),
    answer: Project,
  },
  deleteProject: {
    method: 'DELETE',
    path: '/v1/projects/{tenant_slug}',
    summary: 'Delete a project',
    description:
      'Deletes the project with its apps, volumes and databases, including all data. The project is inaccessible as soon as the response is sent; its resources are removed afterwards. Only for owners of the project.',
    proof: 'owner of the project',
    ...shared,
    scope: 'admin',
    project: 'path',
    params,
    answer: acknowledgement('deleting'),
  },
})

export const projectOperations = { ...ownOperations, ...memberOperations }
