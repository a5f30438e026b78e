import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  acknowledgement,
  bool,
  dateTime,
  int32,
  labelName,
  list,
  maybe,
  nullable,
  rawText,
  resource,
  text,
  uuid,
} from '../http/types.ts'
import { maxGroupsOfApp } from './rules.ts'

const groupName = () => text({ description: 'Name of the environment group.', examples: ['shared'] })

export const EnvGroup = resource(
  'EnvGroup',
  {
    id: uuid({ description: 'Id of the group.' }),
    name: groupName(),
    variables: int32({ description: 'Number of variables in the group.', examples: [3] }),
    apps: list(text({ examples: ['web'] }), {
      description: 'Names of the apps that the group is attached to.',
      examples: [['web']],
    }),
    created_at: dateTime({ description: 'When the group was created.' }),
  },
  { description: 'An environment group: variables that several apps of a project can share.' },
)

export const GroupEnv = resource(
  'EnvGroupVariable',
  {
    name: text({ description: 'Name of the variable.', examples: ['DATABASE_URL'] }),
    updated_at: dateTime({ description: 'When the value was last set.' }),
    secret: bool({ description: 'Whether the variable is a secret, whose value is never shown.', examples: [true] }),
    value: nullable(rawText({ description: 'Value of the variable; null for a secret.', examples: [null] })),
  },
  { description: 'A variable of an environment group.' },
)

export const AppEnvGroup = resource(
  'AppEnvGroup',
  {
    name: groupName(),
    position: int32({
      description:
        'Position of the group among those of the app. If several groups have a variable of the same name, the group with the highest position wins.',
      examples: [1],
    }),
  },
  { description: 'An environment group that is attached to an app.' },
)

const names = (description: string) =>
  list(text({ examples: ['DATABASE_URL'] }), { description, examples: [['DATABASE_URL']] })

export const EnvVersion = resource(
  'EnvVersion',
  {
    version: int32({ description: 'Number of the version of the variables.', examples: [7] }),
    created_at: dateTime({ description: 'When the variables were changed.' }),
    author: nullable(
      text({
        description:
          'Name or e-mail address of the account that changed the variables; null if unknown, or if the change was made before versions were recorded.',
        examples: ['ada@example.com'],
      }),
    ),
    set: names('Names of the variables that were set.'),
    removed: names('Names of the variables that were removed.'),
    restored: nullable(
      int32({
        description: 'Number of the version that this change restored; null if it restored none.',
        examples: [null],
      }),
    ),
  },
  { description: 'A change of variables, without their values.' },
)

const shared = { auth: 'bearer', project: 'selected', addition: true } as const
const ofGroups = { ...shared, tag: 'Environment groups' } as const
const ofApps = { ...shared, tag: 'Apps' } as const
const groups = '/v1/env-groups'
const oneGroup = `${groups}/{group_name}`
const group = { group_name: groupName() }
const app = { app_name: text({ description: 'Name of the app.', examples: ['web'] }) }
const variable = { name: text({ maxLength: 128, description: 'Name of the variable.', examples: ['DATABASE_URL'] }) }
const version = {
  version: text({ maxLength: 10, description: 'Number of a version of the variables.', examples: ['7'] }),
}

export const variableOperations = operations({
  listEnvGroups: {
    method: 'GET',
    path: groups,
    summary: 'List the environment groups of a project',
    description: 'Returns the environment groups with the apps that they are attached to.',
    ...ofGroups,
    scope: 'read',
    list: { order: ['name'] },
    answer: list(EnvGroup),
    items: [
      {
        id: 'getEnvGroup',
        path: oneGroup,
        by: 'name',
        summary: 'Get an environment group',
        description: 'Returns one environment group with the apps that it is attached to.',
      },
    ],
  },
  createEnvGroup: {
    throttle: 'create',
    method: 'POST',
    path: groups,
    summary: 'Create an environment group',
    description: 'Creates an environment group without variables. A project can have at most 50 groups.',
    ...ofGroups,
    scope: 'write',
    body: resource('CreateEnvGroupRequest', {
      name: labelName({
        description: 'Name of the group; unique in the project. It cannot be changed later.',
        examples: ['shared'],
      }),
    }),
    fails: [409],
    answer: EnvGroup,
  },
  deleteEnvGroup: {
    method: 'DELETE',
    path: oneGroup,
    summary: 'Delete an environment group',
    description: 'Deletes the group with its variables. The group must not be attached to an app.',
    ...ofGroups,
    scope: 'write',
    params: Type.Object(group),
    fails: [409],
    answer: acknowledgement('deleted'),
  },
  listEnvGroupVariables: {
    method: 'GET',
    path: `${oneGroup}/env`,
    summary: 'List the variables of a group',
    description: 'Returns the variables. Values of secrets are never shown.',
    ...ofGroups,
    scope: 'read',
    params: Type.Object(group),
    list: { order: ['name'] },
    answer: list(GroupEnv),
    items: [
      {
        id: 'getEnvGroupVariable',
        path: `${oneGroup}/env/{name}`,
        by: 'name',
        summary: 'Get a variable of a group',
        description: 'Returns one variable. The value of a secret is never shown.',
      },
    ],
  },
  putEnvGroupVariable: {
    method: 'PUT',
    path: `${oneGroup}/env/{name}`,
    summary: 'Set a variable of a group',
    description:
      'Creates the variable or replaces its value. Apps that the group is attached to get the new value with their next deployments.',
    ...ofGroups,
    scope: 'write',
    params: Type.Object({ ...group, ...variable }),
    body: resource('PutEnvGroupVariableRequest', {
      value: rawText({
        maxLength: 32_768,
        description: 'Value of the variable. It is stored encrypted.',
        examples: ['postgresql://mote@db:5432/app'],
      }),
      secret: maybe(
        bool({
          description:
            'Whether the value is never shown again. With `false`, members of the project can read it. Default: true.',
          examples: [true],
        }),
      ),
    }),
    answer: acknowledgement('set'),
  },
  deleteEnvGroupVariable: {
    method: 'DELETE',
    path: `${oneGroup}/env/{name}`,
    summary: 'Delete a variable of a group',
    description: 'Removes the variable. Running VMs keep it until the next deployment.',
    ...ofGroups,
    scope: 'write',
    params: Type.Object({ ...group, ...variable }),
    answer: acknowledgement('deleted'),
  },
  listEnvGroupVersions: {
    method: 'GET',
    path: `${oneGroup}/versions`,
    summary: 'List the versions of the variables of a group',
    description:
      'Returns the newest 50 changes of the variables, newest first: the time, the account, and the changed names. Values are not shown.',
    ...ofGroups,
    scope: 'read',
    params: Type.Object(group),
    list: { order: ['-version'] },
    answer: list(EnvVersion),
    items: [
      {
        id: 'getEnvGroupVersion',
        path: `${oneGroup}/versions/{version}`,
        by: 'version',
        summary: 'Get a version of the variables of a group',
        description: 'Returns one change of the variables.',
      },
    ],
  },
  restoreEnvGroupVersion: {
    method: 'POST',
    path: `${oneGroup}/versions/{version}/restore`,
    summary: 'Restore a version of the variables of a group',
    description:
      'Restores the variables of the group as they were in the version, which creates a new version. Apps get them with their next deployments.',
    ...ofGroups,
    scope: 'write',
    params: Type.Object({ ...group, ...version }),
    answer: acknowledgement('restored'),
  },
  listAppEnvGroups: {
    method: 'GET',
    path: '/v1/apps/{app_name}/env-groups',
    summary: 'List the environment groups of an app',
    description:
      'Returns the attached groups in their order. If names are equal, variables of the app win, then those of later groups.',
    ...ofApps,
    scope: 'read',
    params: Type.Object(app),
    list: { order: ['position'] },
    answer: list(AppEnvGroup),
  },
  setAppEnvGroups: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/env-groups',
    summary: 'Attach environment groups to an app',
    description:
      'Replaces the list of groups that are attached to the app. The app gets their variables with its next deployment.',
    ...ofApps,
    scope: 'write',
    params: Type.Object(app),
    body: resource('SetAppEnvGroupsRequest', {
      groups: list(labelName({ examples: ['shared'] }), {
        maxItems: maxGroupsOfApp,
        description:
          'Names of the groups in their order. If several groups have a variable of the same name, the later group wins.',
        examples: [['shared']],
      }),
    }),
    bodyRequired: true,
    fails: [409],
    answer: acknowledgement('set'),
  },
  listAppEnvVersions: {
    method: 'GET',
    path: '/v1/apps/{app_name}/env-versions',
    summary: 'List the versions of the variables of an app',
    description:
      'Returns the newest 50 changes of the variables, newest first: the time, the account, and the changed names. Values are not shown.',
    ...ofApps,
    scope: 'read',
    params: Type.Object(app),
    list: { order: ['-version'] },
    answer: list(EnvVersion),
    items: [
      {
        id: 'getAppEnvVersion',
        path: '/v1/apps/{app_name}/env-versions/{version}',
        by: 'version',
        summary: 'Get a version of the variables of an app',
        description: 'Returns one change of the variables.',
      },
    ],
  },
  restoreAppEnvVersion: {
    method: 'POST',
    path: '/v1/apps/{app_name}/env-versions/{version}/restore',
    summary: 'Restore a version of the variables of an app',
    description:
      'Restores the variables of the app as they were in the version, which creates a new version. The app gets them with its next deployment.',
    ...ofApps,
    scope: 'write',
    params: Type.Object({ ...app, ...version }),
    answer: acknowledgement('restored'),
  },
})
