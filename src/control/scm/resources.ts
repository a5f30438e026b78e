/** Request and response schemas of the source host operations. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, int64, maybe, nullable, oneOf, rawText, resource, text } from '../http/types.ts'

export const installationId = () =>
  int64({
    description: 'Number that GitHub gives the installation of its app on an account.',
    examples: [48_151_623],
  })

export const Repository = resource(
  'Repository',
  {
    id: int64({
      description: 'Number that GitHub gives the repository. It survives renames.',
      examples: [731_058_204],
    }),
    full_name: text({ description: 'Owner and name.', examples: ['acme/shop'] }),
    private: bool({ description: 'Whether the repository is hidden from the public.' }),
    default_branch: text({
      description: 'Branch that is built for an app that names no branch.',
      examples: ['main'],
    }),
    clone_url: text({
      description: 'https address to clone from, without credentials: the `git_url` of an app.',
      examples: ['https://github.com/acme/shop.git'],
    }),
    html_url: text({
      description: 'Page of the repository for a browser.',
      examples: ['https://github.com/acme/shop'],
    }),
    installation_id: installationId(),
  },
  { description: 'Repository on GitHub that the project can build from.' },
)
export type Repository = Static<typeof Repository>

export const ScmAccount = resource(
  'ScmAccount',
  {
    installation_id: installationId(),
    login: text({ description: 'Name of the account on GitHub.', examples: ['acme'] }),
    type: text({ description: 'Kind of account on GitHub: `User` or `Organization`.', examples: ['Organization'] }),
    avatar_url: nullable(
      text({
        description: 'Picture of the account; null if GitHub gave none.',
        examples: ['https://git.example.com/avatars/acme.png'],
      }),
    ),
  },
  { description: 'GitHub account on which the integration is installed.' },
)
export type ScmAccount = Static<typeof ScmAccount>

const credentialKinds = ['token', 'ssh_key'] as const

const knownHosts = {
  examples: ['git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n'],
}

export const GitCredential = resource(
  'GitCredential',
  {
    kind: oneOf(credentialKinds, {
      description: '`token`: read over https with a user name and a token. `ssh_key`: read over SSH with a deploy key.',
      examples: ['ssh_key'],
    }),
    host: text({
      description: 'Git host that the credential is sent to, with its port if it is not the usual one; no other host.',
      examples: ['git.example.com'],
    }),
    username: text({
      description: 'User name that is sent with a token; empty for an SSH key.',
      examples: [''],
    }),
    public_key: nullable(
      text({
        description: 'Add it to the repository as a read-only deploy key. Null for a token.',
        examples: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f mote shop'],
      }),
    ),
    known_hosts: nullable(
      text({
        ...knownHosts,
        description: 'SSH host keys that the Git host is recognized by. Null for a token.',
      }),
    ),
    updated_at: dateTime({ description: 'When the credential was last set.' }),
  },
  { description: 'How builds of an app read its repository, without secrets.' },
)

export const PutGitCredential = resource(
  'PutGitCredentialRequest',
  {
    kind: oneOf(credentialKinds, {
      description:
        '`token`: for a `git_url` that starts with `https://`. `ssh_key`: for one over SSH; a key pair is made here and its private half is never shown.',
      examples: ['ssh_key'],
    }),
    username: maybe(
      text({
        minLength: 1,
        maxLength: 255,
        pattern: '^[^:\\s]+$',
        'x-mote-pattern': 'neither spaces nor colons',
        description: 'User name to send with a token. Default: `git`, which most hosts accept. Ignored for an SSH key.',
        examples: ['git'],
      }),
    ),
    token: maybe(
      text({
        minLength: 1,
        maxLength: 4096,
        description:
          'Token or password that may read the repository. Required with `token`, refused with `ssh_key`; never shown again.',
        examples: [null, 'glpat-example-token'],
      }),
    ),
    known_hosts: maybe(
      rawText({
        ...knownHosts,
        maxLength: 16_384,
        description:
          'Required with `ssh_key`: SSH host keys as `ssh-keyscan` prints them, at most 50 lines. Compare them with what the Git host publishes.',
      }),
    ),
  },
  { description: 'Token, or request for a new deploy key.' },
)
export type PutGitCredential = Static<typeof PutGitCredential>

export const ScmDelivery = resource(
  'ScmDelivery',
  {
    id: text({
      description: 'Id that the Git host gave the delivery; a hash of the request if it gave none.',
      examples: ['6f1c9a52-1f0b-11f1-8e2c-0242ac120002'],
    }),
    event: text({ description: 'Kind of event, in the words of the Git host.', examples: ['push'] }),
    status: oneOf(['applied', 'ignored', 'refused'], {
      description:
        '`applied`: the app was changed or a deployment was started. `ignored`: the event does not concern the app or is outdated. `refused`: the plan or the state of the app does not allow it.',
    }),
    reason: text({
      description: 'Why the delivery was ignored or refused; empty if it was applied.',
      examples: ['', 'The app follows the branch main.'],
    }),
    branch: text({
      description: 'Branch of a push or pull request; empty for other events.',
      examples: ['main'],
    }),
    commit_hash: text({
      description: 'Full hash of the newest commit of a push or pull request; empty for other events.',
      examples: ['5f3a9c1e7b2d4068a1c5e9f03b7d6284c0e8a915'],
    }),
    received_at: dateTime({ description: 'When the delivery arrived here.' }),
  },
  { description: 'Webhook delivery of a Git host, and what it did for an app.' },
)
export type ScmDelivery = Static<typeof ScmDelivery>

export const ScmConfirmed = resource(
  'ScmConfirmed',
  { status: oneOf(['installed'], { description: 'The installation is bound to the project.' }) },
  { description: 'Result of confirming an installation.' },
)

export const ScmInstalled = resource(
  'ScmInstalled',
  {
    status: oneOf(['installed', 'confirm'], {
      description:
        '`installed`: the installation is bound to the project. `confirm`: nothing is bound yet; the program that began needs `confirmation`.',
      examples: ['confirm'],
    }),
    confirmation: Type.Optional(
      text({
        description:
          'To be sent to `POST /v1/scm/install/confirm` by the user who began, within 10 minutes. It works once. Only with `confirm`.',
        examples: ['eyJpZCI6IjAxOTdlMGYzIn0.Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
      }),
    ),
    message: Type.Optional(
      text({
        description: 'Tells the person in the browser what to do next. Only with `confirm`.',
        examples: ['Copy the confirmation into the program where you began, and give it to nobody else.'],
      }),
    ),
  },
  { description: 'Result of installing the GitHub integration.' },
)
