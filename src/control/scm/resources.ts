/** Request and response schemas of the source host operations. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, int64, maybe, nullable, oneOf, rawText, resource, text } from '../http/types.ts'

export const installationId = () =>
  int64({
    description: 'Id that GitHub assigned to the installation of the GitHub App on an account.',
    examples: [48_151_623],
  })

export const Repository = resource(
  'Repository',
  {
    id: int64({
      description: 'Id that GitHub assigned to the repository. It does not change when the repository is renamed.',
      examples: [731_058_204],
    }),
    full_name: text({ description: 'Full name of the repository: owner and name.', examples: ['acme/shop'] }),
    private: bool({ description: 'Whether the repository is private.' }),
    default_branch: text({
      description: 'Default branch of the repository, which is built for an app without `git_branch`.',
      examples: ['main'],
    }),
    clone_url: text({
      description: 'HTTPS clone URL without credentials, to be used as the `git_url` of an app.',
      examples: ['https://github.com/acme/shop.git'],
    }),
    html_url: text({
      description: "URL of the repository's web page.",
      examples: ['https://github.com/acme/shop'],
    }),
    installation_id: installationId(),
  },
  { description: 'A GitHub repository that the project can build.' },
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
        description: "URL of the account's picture; null if GitHub reports none.",
        examples: ['https://git.example.com/avatars/acme.png'],
      }),
    ),
  },
  { description: 'A GitHub account on which the GitHub App is installed.' },
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
      description:
        'Kind of credential. `token`: builds fetch over HTTPS with a user name and a token. `ssh_key`: builds fetch over SSH with a deploy key.',
      examples: ['ssh_key'],
    }),
    host: text({
      description: 'Git host, with the port if it is not the default: the only host to which the credential is sent.',
      examples: ['git.example.com'],
    }),
    username: text({
      description: 'User name that is sent together with the token; empty for an SSH key.',
      examples: [''],
    }),
    public_key: nullable(
      text({
        description:
          'Public half of the SSH key, to be added to the repository as a read-only deploy key; null for a token.',
        examples: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f mote shop'],
      }),
    ),
    known_hosts: nullable(
      text({
        ...knownHosts,
        description: 'SSH host keys by which the Git host is authenticated; null for a token.',
      }),
    ),
    updated_at: dateTime({ description: 'When the credential was last set.' }),
  },
  { description: 'The credential with which builds of an app read its repository, without its secret part.' },
)

export const PutGitCredential = resource(
  'PutGitCredentialRequest',
  {
    kind: oneOf(credentialKinds, {
      description:
        'Kind of credential. `token`: for a `git_url` that begins with `https://`. `ssh_key`: for a `git_url` over SSH; the server generates a key pair and never shows the private half.',
      examples: ['ssh_key'],
    }),
    username: maybe(
      text({
        minLength: 1,
        maxLength: 255,
        pattern: '^[^:\\s]+$',
        'x-mote-pattern': 'neither spaces nor colons',
        description:
          'User name to send together with the token. Default: `git`, which most Git hosts accept. Ignored for an SSH key.',
        examples: ['git'],
      }),
    ),
    token: maybe(
      text({
        minLength: 1,
        maxLength: 4096,
        description:
          'Token or password with read access to the repository. Required for the kind `token`, not allowed for `ssh_key`. It is never shown again.',
        examples: [null, 'glpat-example-token'],
      }),
    ),
    known_hosts: maybe(
      rawText({
        ...knownHosts,
        maxLength: 16_384,
        description:
          'SSH host keys as `ssh-keyscan` prints them, at most 50 lines. Required for the kind `ssh_key`. Compare them with the keys that the Git host publishes.',
      }),
    ),
  },
  { description: 'A token, or a request for a new deploy key.' },
)
export type PutGitCredential = Static<typeof PutGitCredential>

export const ScmDelivery = resource(
  'ScmDelivery',
  {
    id: text({
      description: 'Id that the Git host assigned to the delivery; if there is none, a hash of the request.',
      examples: ['6f1c9a52-1f0b-11f1-8e2c-0242ac120002'],
    }),
    event: text({ description: 'Kind of event, as the Git host names it.', examples: ['push'] }),
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
    received_at: dateTime({ description: 'When the delivery was received.' }),
  },
  { description: 'A webhook delivery of a Git host, and its effect on an app.' },
)
export type ScmDelivery = Static<typeof ScmDelivery>

export const ScmConfirmed = resource(
  'ScmConfirmed',
  {
    status: oneOf(['installed'], {
      description: 'Always `installed`: the installation of the GitHub App is bound to the project.',
    }),
  },
  { description: 'Result of confirming the installation of the GitHub App.' },
)

export const ScmInstalled = resource(
  'ScmInstalled',
  {
    status: oneOf(['installed', 'confirm'], {
      description:
        '`installed`: the installation of the GitHub App is bound to the project. `confirm`: the installation is not bound yet; copy `confirmation` to the program in which the installation was started.',
      examples: ['confirm'],
    }),
    confirmation: Type.Optional(
      text({
        description:
          'Confirmation that the user who started the installation of the GitHub App must send to `POST /v1/scm/install/confirm` within 10 minutes. It works once. Only present with the status `confirm`.',
        examples: ['eyJpZCI6IjAxOTdlMGYzIn0.Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
      }),
    ),
    message: Type.Optional(
      text({
        description: 'Instructions for the person in the browser. Only present with the status `confirm`.',
        examples: [
          'Copy the confirmation into the program in which you started installing the GitHub App, and do not share the confirmation.',
        ],
      }),
    ),
  },
  { description: 'Result of installing the GitHub integration.' },
)
