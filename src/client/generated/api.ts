// Made by scripts/generate-client.ts from the OpenAPI document. Not to be edited: run `npm run client`.
import type { ByteOptions, CallOptions, StreamOptions, Transport } from '../transport.ts'

/** Any JSON: a value whose shape depends on what it is about. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue }

/** Secret of the invitation. May be empty if the invited address is verified. */
export interface AcceptInvitationRequest {
  /** In the link, the part behind the dot. Not needed if the invited address is the verified address of the account. */
  readonly secret?: string | null | undefined
}

/** Result of a change that leaves no resource to return. */
export interface Acknowledgement {
  /** Result of the change: a past participle, or the current state of the resource. */
  readonly status: string
}

/** Host name to add to an app. */
export interface AddDomainRequest {
  /** Host name without wildcards, outside the domains of the installation. */
  readonly name: string
}

/** Public key and a name for it. */
export interface AddSshKeyRequest {
  /** Label to recognize the key by. */
  readonly name: string
  /** The line of a file such as `id_ed25519.pub`. Ed25519, RSA and ECDSA keys are accepted. */
  readonly public_key: string
}

/** Result of sending an announcement. */
export interface Announcement {
  /** The notifications are stored; e-mails follow. */
  readonly status: 'sent'
  /** Accounts that received the notification. */
  readonly recipients: number
}

/** An app with its deployment and scaling settings. */
export interface App {
  /** Id of the app. */
  readonly id: string
  /** Name of the app; unique in the project, and part of its host name. */
  readonly name: string
  /** Repository of the source; empty when the app is deployed from images or uploads. */
  readonly git_url: string
  /** Branch for pushes and builds; empty for the default branch. */
  readonly git_branch: string
  /** Whether submodules on the same host are fetched for builds. */
  readonly git_submodules: boolean
  /** Port that the program in the VM listens on. */
  readonly port: number
  /** `worker`: gets no requests, so it has no host name, is healthy once its program has run for two seconds, and never sleeps. */
  readonly kind: 'web' | 'worker'
  /** App whose environment its deployments get; null for its own. */
  readonly env_of: string | null
  /** Program and arguments that replace those of the image; empty: those of the image. */
  readonly command: readonly string[]
  /** Arguments that replace those of the image, whose entrypoint stays; empty: those of the image. */
  readonly arguments: readonly string[]
  /** Stack of the app, as `mote compose` names it; null for an app outside of stacks. */
  readonly stack: string | null
  /** Path that must answer 2xx or 3xx before a deployment serves. */
  readonly health_check_path: string
  /** Runs once in a separate VM before a new version serves; null: nothing. */
  readonly release_command: readonly string[] | null
  /** Seconds that old VMs may take to finish their requests. */
  readonly drain_timeout: number
  readonly canary: AppCanary | null
  /** `rolling`: the VMs of a new version start beside the old ones. `one-at-a-time`: an old VM ends before a new one starts, so never more VMs run than declared. */
  readonly strategy: 'rolling' | 'one-at-a-time'
  readonly hosts: AppHosts
  readonly restart: AppRestart
  readonly build: AppBuild
  /** How many VMs should run; autoscaling changes it. */
  readonly desired_replicas: number
  /** How many VMs run at least; 0 allows scale to zero. */
  readonly min_replicas: number
  /** How many VMs run at most. */
  readonly max_replicas: number
  /** Whether the number of VMs follows their load. */
  readonly autoscaling_enabled: boolean
  /** Percent of CPU, 0 to 100, above which a VM is added. */
  readonly cpu_threshold: number
  /** Percent of memory, 0 to 100, above which a VM is added. */
  readonly mem_threshold: number
  readonly scale_state: AppScaleState
  /** When it was created. */
  readonly created_at: string
  /** When a setting that takes effect with the next deployment was last changed; null if never since the app was created. */
  readonly settings_changed_at: string | null
  /** The active deployment; null if none. */
  readonly active_deployment_id?: string | null | undefined
  /** Why its newest deployment failed, at most 1000 characters; null if that did not fail, or if a deployment is active. */
  readonly failure: string | null
  /** Host name that the gateway serves the app on; null for a worker. */
  readonly hostname?: string | null | undefined
  /** Address of the app, with the scheme and port of the gateway; null for a worker. */
  readonly url?: string | null | undefined
  /** Installation of the git integration that reads the repository; null if none. */
  readonly scm_installation_id?: number | null | undefined
  /** The repository as the git host names it; null if none is connected. */
  readonly scm_repo_full_name?: string | null | undefined
  /** Id of the repository at the git host; null if none is connected. */
  readonly scm_repo_id?: number | null | undefined
  /** Always null; read it with `GET /v1/apps/{app_name}/secret`. */
  readonly scm_webhook_secret?: string | null | undefined
}

/** How the source of an app is built. */
export interface AppBuild {
  /** Path of the Dockerfile in the source; empty: `Dockerfile` or `Containerfile` at its top, if there is one. */
  readonly dockerfile: string
  /** Arguments of the Dockerfile, or variables of the commands of other builds. Members of the project can read them. */
  readonly args: Readonly<Record<string, string>>
  /** Variables of the app that the build gets like `args`; none of its secrets. */
  readonly env: readonly string[]
  /** Variables of the app that the build gets as secrets: `RUN --mount=type=secret,id=<name>` of a Dockerfile, or variables of the commands of other builds. */
  readonly secrets: readonly string[]
}

export interface AppBuildRequest {
  /** Path of the Dockerfile in the source; empty: `Dockerfile` or `Containerfile` at its top, if there is one. */
  readonly dockerfile?: string | null | undefined
  /** Arguments of the Dockerfile, or variables of the commands of other builds. Members of the project can read them. */
  readonly args?: Readonly<Record<string, string>> | null | undefined
  /** Variables of the app that the build gets like `args`; none of its secrets. */
  readonly env?: readonly string[] | null | undefined
  /** Variables of the app that the build gets as secrets: `RUN --mount=type=secret,id=<name>` of a Dockerfile, or variables of the commands of other builds. */
  readonly secrets?: readonly string[] | null | undefined
}

/** How new versions are tried before they get all requests. */
export interface AppCanary {
  /** Percentage of the requests that a new version gets. */
  readonly percent: number
  /** How long it gets them. */
  readonly seconds: number
  /** It fails if a larger percentage of its requests ends with 5xx or without an answer. */
  readonly max_error_percent: number
  /** With fewer requests, errors are not compared. */
  readonly min_requests: number
}

export interface AppCanaryRequest {
  /** Percentage of the requests that a new version gets; 0: no canary. */
  readonly percent: number
  /** How long it gets them. Default: 300. */
  readonly seconds?: number | null | undefined
  /** It fails if a larger percentage of its requests ends with 5xx or without an answer. Default: 5. */
  readonly max_error_percent?: number | null | undefined
  /** With fewer requests, errors are not compared. Default: 20. */
  readonly min_requests?: number | null | undefined
}

/** An environment variable of an app. The value of a secret is never shown. */
export interface AppEnv {
  /** Name of the variable. */
  readonly name: string
  /** When its value was last set. */
  readonly updated_at: string
  /** Whether its value is never shown. */
  readonly secret: boolean
  /** Its value; null for a secret. */
  readonly value: string | null
}

/** A group that is attached to an app. */
export interface AppEnvGroup {
  /** Name of the group. */
  readonly name: string
  /** Of equal names, the group with the highest position wins. */
  readonly position: number
}

/** A file that the VMs of an app get before their program starts. */
export interface AppFile {
  /** Absolute path in the VM. */
  readonly path: string
  /** Mode of the file, in octal digits. */
  readonly mode: string
  /** Whether its content is never shown. */
  readonly secret: boolean
  /** Variable whose value is its content; null: it has its own. */
  readonly variable: string | null
  /** Size of its own content; 0 with a variable. */
  readonly size_bytes: number
  /** SHA-256 of its content, 64 hexadecimal digits; null for a secret. */
  readonly sha256: string | null
  /** When it was last set. */
  readonly updated_at: string
}

/** The content of a file of an app. */
export interface AppFileContent {
  /** Absolute path in the VM. */
  readonly path: string
  /** Its content in base64; null for a secret. */
  readonly content: string | null
}

/** The JSON Schema of `mote.toml` (docs/mote-toml.md). */
export interface AppFileSchema {
  /** Version of JSON Schema. */
  readonly $schema: string
  /** Name of the file. */
  readonly title: string
  /** Always `object`. */
  readonly type: string
  /** The keys of the file by name. */
  readonly properties: Readonly<Record<string, JsonValue>>
}

/** Requests and resource usage of an app over time. */
export interface AppHistory {
  /** Length of the time up to now. */
  readonly range: '1h' | '6h' | '24h' | '7d' | '30d'
  /** Start of the first period. */
  readonly from: string
  /** End of the last period, up to 45 seconds ago: everything before it was counted. */
  readonly to: string
  readonly totals: HistoryTotals
  /** All periods, oldest first, including those without requests. */
  readonly points: readonly HistoryPoint[]
}

/** Which hosts run the VMs of an app. `GET /v1/host-labels` lists the labels. */
export interface AppHosts {
  /** Labels that a host must have. */
  readonly require: Readonly<Record<string, string>>
  /** Hosts that have more of these labels are chosen, as long as they have room. */
  readonly prefer: Readonly<Record<string, string>>
}

export interface AppHostsRequest {
  /** Labels that a host must have. */
  readonly require?: Readonly<Record<string, string>> | null | undefined
  /** Hosts that have more of these labels are chosen, as long as they have room. */
  readonly prefer?: Readonly<Record<string, string>> | null | undefined
}

/** What happens when the program of a VM ends. */
export interface AppRestart {
  /** When the program of a VM is started again after it has ended: after every exit, after an exit with another code than 0, or never. */
  readonly policy: 'always' | 'on-failure' | 'never'
  /** Restarts until the VM counts as crashed; null: as the installation sets. */
  readonly max_restarts: number | null
}

export interface AppRestartRequest {
  /** When the program of a VM is started again after it has ended: after every exit, after an exit with another code than 0, or never. */
  readonly policy: 'always' | 'on-failure' | 'never'
  /** Restarts until the VM counts as crashed. Default: as the installation sets. */
  readonly max_restarts?: number | null | undefined
}

/** `active`: VMs serve; `idle`: about to scale to zero; `scaled_to_zero`: the next request wakes the app; `warming_up`: VMs start. */
export type AppScaleState = 'active' | 'idle' | 'scaled_to_zero' | 'warming_up'

/** Settings for a git host to deliver webhooks of an app. */
export interface AppSecret {
  /** Key that signs webhooks; null if the app has none. */
  readonly scm_webhook_secret: string | null
  /** URL to which the git host delivers pushes, signed with the secret. */
  readonly webhook_url: string
}

/** An uploaded source. */
export interface AppSource {
  /** Name of the source for deployments: `sha256:` and the digest of the stored archive. */
  readonly source: string
  /** Size of the stored archive in bytes, compressed. */
  readonly size_bytes: number
  /** Number of files in the source. */
  readonly files: number
}

/** How OpenSSH reaches the VM of an app. */
export interface AppSsh {
  /** Address of the SSH bastion. */
  readonly ssh_host: string
  /** Its port. */
  readonly ssh_port: number
  /** User name: the app and its project. */
  readonly ssh_user: string
  /** Host keys of the bastions, as in known_hosts without the name; empty until a gateway has reported. */
  readonly ssh_host_keys: readonly string[]
  /** Opens a shell; accepts only the known host key. */
  readonly ssh_command: string
}

/** A volume attached to an app. */
export interface AttachedVolume {
  /** Id of the volume, used in paths. */
  readonly id: string
  /** The project that owns the volume. */
  readonly tenant_id: string
  /** Name of the volume; unique in the project. */
  readonly name: string
  /** Size in MiB, as programs in the VM see it. */
  readonly size_mib: number
  /** Kind of storage pool that stores the volume; empty for the default one of its host. */
  readonly pool_name: string
  /** When it was created. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
  /** `pending` (placed when first used), `creating`, `ready`, `growing`, `restoring`, `moving`, `failed`; for a volume attached to an app: `waiting` (for the next start of a VM), `attaching`, `attached`, `detaching`. */
  readonly status?: string | undefined
  /** The last error; null if there was none. */
  readonly message?: string | null | undefined
  /** Directory in the VM where the volume is mounted. */
  readonly mount_point: string
  /** 0: read-write, for one VM at a time; 1: read-only, for any number of VMs. */
  readonly access_mode: number
}

export interface AttachRuntimeVolumeRequest {
  /** Id of a volume of the project. */
  readonly volume_id: string
  /** Absolute path of the directory in the VM where the volume is mounted. */
  readonly mount_point: string
  /** Whether the VM may only read it. */
  readonly read_only?: boolean | undefined
}

export interface AttachVolumeRequest {
  /** Id of the volume. */
  readonly volume_id: string
  /** Absolute path of the directory in the VM where the volume is mounted. */
  readonly mount_point?: string | undefined
  /** 0: read-write, for one VM at a time; 1: read-only, for any number of VMs. */
  readonly access_mode?: number | undefined
}

/** Entry of the audit log: an action with its actor, time and origin. */
export interface AuditLog {
  /** UUID of the entry. Later entries have larger ones. */
  readonly id: string
  /** Account that acted; zeros where none is known, as for a sign-in with an unknown address or a change that the system made. */
  readonly user_id: string
  /** What happened: the kind of resource and a verb. */
  readonly action: string
  /** Name or e-mail address of the account; null for the system and for a deleted account. */
  readonly actor: string | null
  /** What happened in words, at most 300 characters; follows the name of the actor. */
  readonly summary: string
  /** Kind of resource that `resource_id` refers to. */
  readonly resource_type: string
  /** Object with more about the action, depending on its kind. Never holds secrets. */
  readonly details: JsonValue
  /** When it happened. */
  readonly created_at: string
  /** Address of the client; null for actions of the system. */
  readonly ip_address?: string | null | undefined
  /** Id of the resource, mostly a UUID; null if the action concerns no single resource. */
  readonly resource_id?: string | null | undefined
}

/** Page of the audit log. */
export interface AuditLogList {
  /** Entries of this page, newest first. */
  readonly items: readonly AuditLog[]
  /** Entries that match the filters, on all pages. */
  readonly total: number
}

/** Result of a sign-in: tokens, or a request for the second factor. */
export interface AuthResponse {
  readonly user: User
  /** True if the second factor is still missing: send `code` too. `token` and `refresh_token` are null then. */
  readonly requires_2fa: boolean
  /** Session JWT for the `Authorization: Bearer` header, valid for 24 hours unless configured otherwise. */
  readonly token?: string | null | undefined
  /** Exchanges for new tokens at `POST /v1/auth/refresh`, once. Store it before using it. */
  readonly refresh_token?: string | null | undefined
}

/** Target and current memory of a VM. */
export interface Balloon {
  /** Target memory of the VM in MiB. */
  readonly target_memory_mib: number
  /** Current memory of the VM in MiB, as last reported. */
  readonly actual_memory_mib: number
  /** MiB at start, which is also the maximum. */
  readonly memory_mib: number
  /** Minimum memory of the VM in MiB. */
  readonly floor_mib: number
}

/** What an event of the billing provider did. */
export interface BillingEventEffect {
  /** `applied`: subscriptions and plans are up to date with it. `ignored`: outdated, or not about this installation. `duplicate`: received before. */
  readonly status: 'applied' | 'ignored' | 'duplicate'
}

/** Product that a project can subscribe to. */
export interface BillingProduct {
  /** Id that the billing provider gave the product. */
  readonly id: string
  /** Shown to customers. */
  readonly name: string
  /** Whether the product is no longer sold. Existing subscriptions to it go on. */
  readonly is_archived: boolean
  /** Whether a checkout sells this product if none is chosen. */
  readonly is_default_checkout_product: boolean
  /** What customers get; null if the provider has no text. */
  readonly description?: string | null | undefined
  /** ISO 4217 code of the price, in lower case; null without a fixed price. */
  readonly currency?: string | null | undefined
  /** Price of a period, in the smallest unit of `currency`; null without a fixed price. */
  readonly price_amount_cents?: number | null | undefined
  /** Length of a period, in the words of the provider, such as `month` or `year`; null if paid once. */
  readonly recurring_interval?: string | null | undefined
}

/** Products of the billing provider. */
export interface BillingProductList {
  /** Products on sale first, then archived ones; the cheapest first. Empty without a billing provider. */
  readonly products: readonly BillingProduct[]
  /** Product that a checkout sells if none is chosen; null if nothing is for sale. */
  readonly default_checkout_product_id?: string | null | undefined
  /** When the products were last read from the billing provider; null if never. */
  readonly last_synced_at?: string | null | undefined
}

/** Plan of a project and the subscription that pays for it. */
export interface BillingSummary {
  /** Slug of the project. */
  readonly tenant_id: string
  /** Id by which the billing provider knows the project: the UUID of the project. */
  readonly customer_external_id: string
  /** State of the subscription: `none`, `active`, `trialing`, `past_due` (a payment failed) or `canceled` (over). */
  readonly status: string
  /** Whether the subscription was canceled and ends with the current period. */
  readonly cancel_at_period_end: boolean
  /** Whether the billing provider charges nobody, as in its sandbox. */
  readonly is_test_mode: boolean
  /** Whether the project has or had a subscription, or is a customer of the billing provider. */
  readonly has_billing_record: boolean
  /** Price of a period, in the smallest unit of `currency`; null without a subscription. */
  readonly amount_cents?: number | null | undefined
  /** ISO 4217 code of `amount_cents`, in lower case; null without a subscription. */
  readonly currency?: string | null | undefined
  /** Start of the period that is paid or due; null without a subscription. */
  readonly current_period_start?: string | null | undefined
  /** End of that period, when the subscription renews or ends; null without a subscription. */
  readonly current_period_end?: string | null | undefined
  /** Product that a checkout sells if none is chosen; null if nothing is for sale. */
  readonly default_checkout_product_id?: string | null | undefined
  /** Product chosen with `PUT /v1/billing/checkout-product`; null if none is, or it is no longer sold. */
  readonly selected_checkout_product_id?: string | null | undefined
  /** Plan of the project, for people. */
  readonly plan_name?: string | null | undefined
  /** Plan of the project: `free`, `pro`, `business` or `unlimited`. */
  readonly tier_slug?: string | null | undefined
  /** Id that the billing provider gave the customer; null before the first checkout. */
  readonly provider_customer_id?: string | null | undefined
  /** Product that is subscribed to; null without a subscription. */
  readonly provider_product_id?: string | null | undefined
  /** Id that the billing provider gave the subscription; null without one. */
  readonly provider_subscription_id?: string | null | undefined
  /** What the plan of the project allows. */
  readonly plan_limits?: PlanLimits | null | undefined
}

/** A build of an image from the source of an app. */
export interface Build {
  /** Id of the build. */
  readonly id: string
  /** The deployment that the build belongs to. */
  readonly deployment_id: string
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** Status of the build; `succeeded`, `failed`, `cancelled` and `superseded` are final. */
  readonly status: 'queued' | 'fetching' | 'building' | 'pushing' | 'succeeded' | 'failed' | 'cancelled' | 'superseded'
  /** The branch that is built; empty for an uploaded source. */
  readonly git_branch: string
  /** The commit that is built; empty until it is fetched. */
  readonly git_commit_hash: string
  /** First line of the commit message; empty until it is fetched. */
  readonly git_commit_message: string
  /** `manual`, `api` or `push`. */
  readonly trigger_source: string
  /** The built image; null until it exists. */
  readonly image: string | null
  /** The uploaded source that is built; null for a repository. */
  readonly source: string | null
  /** Why the build failed; null if it did not fail. */
  readonly error: string | null
  /** When the build was requested. */
  readonly created_at: string
  /** When a host started the build; null while it is queued. */
  readonly started_at: string | null
  /** When the build ended; null while it is running or queued. */
  readonly ended_at: string | null
}

/** The log of a build. */
export interface BuildLog {
  /** Id of the build. */
  readonly build_id: string
  /** The deployment that the build belongs to. */
  readonly deployment_id: string
  /** Status of the build; `succeeded`, `failed`, `cancelled` and `superseded` are final. */
  readonly status: 'queued' | 'fetching' | 'building' | 'pushing' | 'succeeded' | 'failed' | 'cancelled' | 'superseded'
  /** Why the build failed; null if it did not fail. */
  readonly error: string | null
  /** `host`: the current log; `kept`: the stored log of a finished build; `none`: the build is queued, or its log was lost with its host. */
  readonly source: 'host' | 'kept' | 'none'
  /** The newest lines, oldest first. */
  readonly lines: readonly BuildLogLine[]
}

/** One line of the log of a build. */
export interface BuildLogLine {
  /** When the line was written. */
  readonly at: string
  /** The text, without its line break. */
  readonly line: string
}

/** Puzzle for one registration: a picture, or a question in words. */
export interface Captcha {
  /** Sent back with the registration. */
  readonly captcha_id: string
  /** Data URL of a PNG with six letters and digits to read. With `format=text`, a data URL of the question. */
  readonly captcha_image: string
  /** Question in words, for people who cannot see a picture. Only with `format=text`. */
  readonly captcha_text?: string | undefined
  readonly captcha_work?: CaptchaWork | undefined
}

/** Proof of work that a text captcha requires besides its answer: a `captcha_proof` such that PBKDF2-HMAC-SHA-256 of `<captcha_id>:<captcha_proof>`, with the salt `mote-captcha` and `iterations` iterations, starts with `bits` zero bits. Absent for pictures. */
export interface CaptchaWork {
  /** Iterations of PBKDF2. */
  readonly iterations: number
  /** Zero bits that the hash must start with. */
  readonly bits: number
}

/** New address, and proof that the owner of the account asks. */
export interface ChangeEmailRequest {
  /** New address to sign in with. */
  readonly email: string
  /** Password of the account. Not needed with `code`, or in a session that began within 10 minutes. */
  readonly password?: string | null | undefined
  /** Code of the authenticator app or a recovery code. An alternative to `password`. */
  readonly code?: string | null | undefined
}

/** The old and the new password. */
export interface ChangePasswordRequest {
  /** Password to be replaced. */
  readonly current_password: string
  /** Password to sign in with: 8 to 128 characters, neither a commonly used password nor the e-mail address. */
  readonly new_password: string
}

export interface CloneVolumeRequest {
  /** Name of the new volume; unique in the project. */
  readonly name: string
  /** Name of a snapshot of this volume. */
  readonly snapshot_name: string
}

/** Confirmation that the browser showed at the end of an installation. */
export interface ConfirmScmRequest {
  /** Text that the last page in the browser shows. */
  readonly confirmation: string
}

/** Text of an announcement. */
export interface CreateAnnouncementRequest {
  /** Title of the notification and subject of the e-mail. */
  readonly title: string
  /** Plain text of the notification and the e-mail. */
  readonly body: string
  /** Path in the dashboard that the notification leads to. Default: its start page. */
  readonly route?: string | null | undefined
}

export interface CreateAppRequest {
  /** Part of the host name; unique in the project. */
  readonly name: string
  /** Repository of the source; may be empty for an app that is deployed from images or uploads. */
  readonly git_url: string
  /** Whether the number of VMs follows their load. */
  readonly autoscaling_enabled?: boolean | null | undefined
  /** How many VMs should run. */
  readonly desired_replicas?: number | null | undefined
  /** How many VMs run at most. */
  readonly max_replicas?: number | null | undefined
  /** How many VMs run at least; 0 allows scale to zero. */
  readonly min_replicas?: number | null | undefined
  /** Percent of CPU above which autoscaling adds a VM. */
  readonly cpu_threshold?: number | null | undefined
  /** Percent of memory above which autoscaling adds a VM. */
  readonly mem_threshold?: number | null | undefined
  /** Branch for pushes and builds; empty for the default branch of the repository. */
  readonly git_branch?: string | null | undefined
  /** Whether submodules on the same host are fetched for builds. */
  readonly git_submodules?: boolean | null | undefined
  /** Seconds that old VMs may take to finish their requests. */
  readonly drain_timeout?: number | null | undefined
  readonly canary?: AppCanaryRequest | null | undefined
  /** `rolling`: the VMs of a new version start beside the old ones. `one-at-a-time`: an old VM ends before a new one starts, so never more VMs run than declared. */
  readonly strategy?: 'rolling' | 'one-at-a-time' | null | undefined
  readonly hosts?: AppHostsRequest | null | undefined
  readonly restart?: AppRestartRequest | null | undefined
  readonly build?: AppBuildRequest | null | undefined
  /** Path that must answer 2xx or 3xx before a deployment serves. */
  readonly health_check_path?: string | null | undefined
  /** Program with arguments, without a shell, that runs once in a separate VM with a new image before it serves. If it fails, the old version keeps serving. An empty list removes it. */
  readonly release_command?: readonly string[] | null | undefined
  /** Installation of the git integration that reads the repository, from `GET /v1/scm/installations`. */
  readonly scm_installation_id?: number | null | undefined
  /** The repository as the git host names it. */
  readonly scm_repo_full_name?: string | null | undefined
  /** Id of the repository at the git host. */
  readonly scm_repo_id?: number | null | undefined
  /** Port that the program in the VM listens on; it is also passed as `$PORT`. */
  readonly port?: number | null | undefined
  /** Program and arguments that replace those of the image; empty: those of the image. No shell is involved. */
  readonly command?: readonly string[] | null | undefined
  /** Arguments that replace those of the image, whose entrypoint stays; empty: those of the image. Ignored with `command`. */
  readonly arguments?: readonly string[] | null | undefined
  /** Stack of the app, as `mote compose` names it. It cannot be changed later. */
  readonly stack?: string | null | undefined
  /** App of the project whose environment the deployments of a worker get. It is deleted with that app. */
  readonly env_of?: string | null | undefined
  /** `worker` for a program that gets no requests. It cannot be changed later. Default: `web`. */
  readonly kind?: 'web' | 'worker' | null | undefined
}

export interface CreateDatabaseBranchRequest {
  /** Name of the branch; unique in its database. */
  readonly name: string
  /** Snapshot that the branch starts from. Not together with `at`. */
  readonly from_snapshot?: string | null | undefined
  /** Instant (RFC 3339) of the current branch that the new branch starts from, or `latest`; replayed from the backups. */
  readonly at?: string | null | undefined
}

export interface CreateDatabaseRequest {
  /** Name of the database; unique in the project. */
  readonly name: string
  /** Engine of the database: `postgres`. */
  readonly engine: string
  /** Disk for the data in MiB; it can grow later. Default: 1024. */
  readonly disk_mib?: number | null | undefined
  /** Memory of its VM in MiB. */
  readonly memory_mib?: number | null | undefined
  /** Major version of PostgreSQL. Default: the one that the installation prefers. */
  readonly postgres_version?: number | null | undefined
  /** Settings of the server by name. */
  readonly settings?: Readonly<Record<string, string>> | null | undefined
  /** Virtual CPUs of its VM. */
  readonly vcpus?: number | null | undefined
}

export interface CreateDatabaseSnapshotRequest {
  /** Name of the snapshot; unique in its database. */
  readonly name: string
}

/** New or renewed invitation, including the link that accepts it. */
export interface CreatedInvitation {
  /** Identifies the invitation when it is accepted or withdrawn. */
  readonly id: string
  /** Slug of the project. */
  readonly project: string
  /** Display name of the project. */
  readonly project_name: string
  /** Address that is invited, in lower case. */
  readonly email: string
  /** Role in the project after joining: `admin` also renames the project and manages members and viewers, `member` works with its resources, `viewer` only reads. */
  readonly role: 'admin' | 'member' | 'viewer'
  /** When the address was first invited. */
  readonly created_at: string
  /** End of the invitation, seven days after it was made or last renewed. */
  readonly expires_at: string
  /** Link to accept the invitation; anyone who has it can join. It is never shown again. */
  readonly link: string
}

/** New personal access token, including the token itself. */
export interface CreatedToken {
  /** Identifies the token when it is revoked. */
  readonly id: string
  /** Label chosen by its owner. */
  readonly name: string
  /** The token itself, for the `Authorization: Bearer` header. It is never shown again. */
  readonly token: string
  /** Last four characters of the token, to recognize it by. The rest is not stored. */
  readonly token_last_four: string
  /** When the token was created. */
  readonly created_at: string
  /** What the token may do. `admin` includes `write`; `write` includes `deploy` and `exec` (programs, terminals and files in a VM); each includes `read`. */
  readonly scopes?: readonly ('read' | 'exec' | 'deploy' | 'write' | 'admin')[] | undefined
  /** Slug of the only project the token may act in; null for every project of its owner. */
  readonly project?: string | null | undefined
  /** When the token stops working; null for never. */
  readonly expires_at?: string | null | undefined
}

export interface CreateEnvGroupRequest {
  /** Unique in the project. It cannot be changed later. */
  readonly name: string
}

/** Name of a new project. */
export interface CreateProjectRequest {
  /** Shown in the dashboard and in notifications. Need not be unique. */
  readonly name: string
}

/** Packets to match, and what happens to them. */
export interface CreateSecurityRuleRequest {
  /** Protocol to match. With a range of ports, `any` means TCP and UDP. */
  readonly protocol: 'tcp' | 'udp' | 'icmp' | 'any'
  /** First destination port to match. 0 for `icmp`, and for every port. */
  readonly port_start: number
  /** Last destination port to match, inclusive. 0 for `icmp`; 65535 for every port. */
  readonly port_end: number
  /** What happens to matching packets. */
  readonly action: 'allow' | 'deny'
  /** `inbound`: packets to the VMs. `outbound`: packets from the VMs. Default: `inbound`. */
  readonly direction?: 'inbound' | 'outbound' | null | undefined
  /** Network or single address of the other side, IPv4 or IPv6. Default: every address. */
  readonly cidr?: string | null | undefined
  /** Lower ones are tried first; of equal ones, the older. Default: after the existing rules. */
  readonly priority?: number | null | undefined
}

/** Name and permissions of a new token. */
export interface CreateTokenRequest {
  /** Label to recognize the token by. */
  readonly name: string
  /** Slug or id of the only project the token may act in. Default: every project of the account, or the project of the token that creates it. */
  readonly project?: string | null | undefined
  /** What the token may do. `admin` includes `write`, `write` includes `deploy`, `deploy` includes `read`. Default: every scope of the credential that creates it. */
  readonly scopes?: readonly ('read' | 'exec' | 'deploy' | 'write' | 'admin')[] | null | undefined
  /** When the token stops working; must be in the future. Default: never. */
  readonly expires_at?: string | null | undefined
}

/** A directory to make, with its parents. */
export interface CreateVmDirectoryRequest {
  /** Absolute path in the VM. */
  readonly path?: string | null | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | null | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | null | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | null | undefined
}

export interface CreateVmSnapshotRequest {
  /** Name of the snapshot; unique in its deployment. */
  readonly snapshot_name: string
}

export interface CreateVolumeRequest {
  /** Name of the volume; unique in the project. */
  readonly name: string
  /** Size in MiB. The volume can grow later, but never shrinks. */
  readonly size_mib: number
  /** Kind of storage pool to use. Default: the one that the host prefers. */
  readonly pool_name?: string | null | undefined
}

export interface CreateVolumeSnapshotRequest {
  /** Name of the snapshot; unique for its volume. */
  readonly name: string
}

/** A managed database with branches and backups. */
export interface Database {
  /** Id of the database, used in paths. */
  readonly id: string
  /** Name of the database; unique in the project. */
  readonly name: string
  /** Engine of the database: `postgres`. */
  readonly engine: string
  /** Status of the current branch: `creating`, `running`, `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`. */
  readonly status: string
  /** Virtual CPUs of its VM. */
  readonly vcpus: number
  /** Memory of its VM in MiB. */
  readonly memory_mib: number
  /** Disk for the data in MiB. */
  readonly disk_mib: number
  /** Major version of PostgreSQL. */
  readonly postgres_version: number
  /** Tenant of the database on the page server, 32 hexadecimal digits. */
  readonly storage_tenant_id: string
  /** Timeline of the current branch on the page server; empty if none. */
  readonly storage_timeline_id: string
  /** Generation of the tenant; grows when another node attaches it. */
  readonly tenant_gen: number
  /** When it was created. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
  /** Settings of the server that differ from the defaults, by name. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /** Why the database failed or does not accept connections; null if it works. */
  readonly message?: string | null | undefined
}

/** Backup configuration of a database and its state. */
export interface DatabaseBackupInfo {
  /** Id of the database. */
  readonly database_id: string
  /** Name of the database. */
  readonly database_name: string
  /** Backup method, as text for users. */
  readonly backup_strategy: string
  /** `point_in_time`: the database can be restored to any instant since the oldest backup. */
  readonly recovery_mode: string
  /** Whether the newest backup was restored and checked; on a page server, whether it currently has the history. */
  readonly retention_valid: boolean
  /** State of the backups in one word. */
  readonly status: string
  /** Tenant of the database on the page server; null if none. */
  readonly storage_tenant_id: string | null
  /** Timeline of the branch on the page server; null if none. */
  readonly storage_timeline_id: string | null
  /** Generation of the tenant; null without a tenant. */
  readonly tenant_gen: number | null
  /** When it was created. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
  /** When the newest full backup ended; null if there is none. */
  readonly newest_backup_at?: string | null | undefined
  /** Number of retained full backups. */
  readonly backups?: number | undefined
  /** Total bytes of all backups. */
  readonly size_bytes?: number | undefined
  /** When the newest restore drill ended; null if there was none. */
  readonly checked_at?: string | null | undefined
  /** Where backups go: `volume`, or `s3://bucket/prefix`. */
  readonly target?: string | undefined
  /** Why the newest backup or restore drill failed; null if it did not fail. */
  readonly error?: string | null | undefined
}

export interface DatabaseBackupTarget {
  /** `https://host` or `https://host:port`; buckets are addressed by path. */
  readonly endpoint: string
  /** Region of the bucket. Default: us-east-1. */
  readonly region?: string | null | undefined
  /** The bucket; it must exist. */
  readonly bucket: string
  /** Prefix of all keys. Default: mote. */
  readonly prefix?: string | null | undefined
  /** Access key of the storage. */
  readonly access_key: string
  /** Secret key of the storage. It is stored encrypted and never shown. */
  readonly secret_key: string
  /** Certificate of a private authority, as PEM; null for the public authorities. */
  readonly ca_certificate?: string | null | undefined
}

/** A branch of a database's history, with its own VM. */
export interface DatabaseBranch {
  /** Id of the database. */
  readonly database_id: string
  /** Name of the database. */
  readonly database_name: string
  /** Name of the branch; unique in its database. */
  readonly branch_name: string
  /** Whether the host name of the database points to the branch. */
  readonly is_current: boolean
  /** `creating`, `ready` (accepts connections), `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`. */
  readonly status: string
  /** Tenant of the database on the page server; null if none. */
  readonly storage_tenant_id: string | null
  /** Timeline of the branch on the page server; null if none. */
  readonly storage_timeline_id: string | null
  /** Generation of the tenant; null without a tenant. */
  readonly tenant_gen: number | null
  /** When it was created. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
}

/** How to connect to a branch of a database. */
export interface DatabaseConnection {
  /** Id of the database. */
  readonly database_id: string
  /** Name of the database, also on its server. */
  readonly database_name: string
  /** Host name of the server inside the private network. */
  readonly database_host: string
  /** Port of the server. */
  readonly database_port: number
  /** Role that owns the database. */
  readonly database_user: string
  /** Connects through the tunnel; ready to paste. Contains the password. */
  readonly psql_command: string
  /** Host name of the SSH bastion. */
  readonly ssh_host: string
  /** Port of the SSH bastion. */
  readonly ssh_port: number
  /** User name of the SSH login. */
  readonly ssh_user: string
  /** Opens the tunnel; ready to paste. */
  readonly ssh_tunnel_command: string
  /** Host keys of the SSH bastions, as in known_hosts: `ssh-ed25519 AAAA...`. Accept no other. */
  readonly ssh_host_keys: readonly string[]
}

/** The data of a database at one point in time, under a name. */
export interface DatabaseSnapshot {
  /** Name of the snapshot; unique in its database. */
  readonly name: string
  /** `creating`, `ready` or `failed`. */
  readonly status: string
  /** Bytes that the snapshot takes; 0 until it is taken. */
  readonly size_bytes: number
  /** When the snapshot was requested. */
  readonly created_at: string
  /** The branch that the snapshot was taken of. */
  readonly branch_name?: string | undefined
  /** `user`: taken on request; `restore`: the state before a restore, retained automatically. */
  readonly kind?: string | undefined
  /** Why the snapshot failed; null if it did not fail. */
  readonly error?: string | null | undefined
}

/** An operation on backups that was started. */
export interface DatabaseSnapshotAction {
  /** What happens now, as text for users. */
  readonly message: string
  /** Always true: a failed request answers with an error. */
  readonly success: boolean
}

/** Proof that the owner of the account asks. Empty in a session that began within 10 minutes. */
export interface DeleteMeRequest {
  /** Password of the account. Not needed with `code`, or in a session that began within 10 minutes. */
  readonly password?: string | null | undefined
  /** Code of the authenticator app or a recovery code. An alternative to `password`. */
  readonly code?: string | null | undefined
}

export interface DeployAppRequest {
  /** OCI image reference, or `oci:<directory>` on the host. Default: built from the source. */
  readonly image?: string | null | undefined
  /** Builds an uploaded source: the answer of `PUT /v1/apps/{app_name}/source`. Not with `image`. */
  readonly source?: string | null | undefined
  /** MiB of writable disk of each VM. Default: that of the installation. */
  readonly disk_mib?: number | null | undefined
  /** Default: the fastest one that the hosts offer. `vm`: any with a virtual machine and a kernel for each guest, never `gvisor`. */
  readonly hypervisor?: 'firecracker' | 'cloud-hypervisor' | 'gvisor' | 'qemu' | 'vm' | 'fake' | null | undefined
  /** MiB of memory of each VM. Default: that of the installation. */
  readonly memory_mib?: 512 | 1024 | 2048 | 4096 | null | undefined
  /** Port that the program in the VM listens on; it is also passed as `$PORT`. */
  readonly port?: number | null | undefined
  /** Virtual CPUs of each VM. Default: that of the installation. */
  readonly vcpus?: 1 | 2 | 3 | 4 | null | undefined
  /** Explains what would happen, and changes nothing. */
  readonly dry_run?: boolean | null | undefined
}

/** One rollout of an app: an image and the size of its VMs, as requested. */
export interface Deployment {
  /** Id of the deployment. */
  readonly id: string
  /** The app that the deployment belongs to. */
  readonly app_id: string
  /** The project that owns the deployment. */
  readonly tenant_id: string
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** The build that made the image; empty if nothing was built. */
  readonly build_id: string
  /** Image of the deployment; empty until it is built. */
  readonly image: string
  /** Tag of the image. */
  readonly image_tag: string
  /** Current status of the deployment: `pending`, `building`, `scheduled`, `starting`, `running`, `unhealthy`, `pausing`, `paused`, `resuming`, `sleeping`, `migrating`, `stopping`, `stopped`, `superseded`, `failed`, `cancelled`, `deleted`. */
  readonly status: string
  /** When the deployment was requested. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
  /** Writable disk of each VM in MiB. */
  readonly disk_mib: number
  /** Memory of each VM in MiB. */
  readonly memory_mib: number
  /** Virtual CPUs of each VM. */
  readonly vcpus: number
  /** Port that the program in the VM listens on. */
  readonly port: number
  /** 0: chosen by the scheduler, 1: firecracker, 2: cloud-hypervisor, 3: qemu, 9: fake. */
  readonly hypervisor: number
  /** IPv6 address of its first VM; empty until it has one. */
  readonly ipv6_address: string
  /** The branch that was built; empty: none. */
  readonly git_branch: string
  /** The commit that was built; empty: none, or not fetched yet. */
  readonly git_commit_hash: string
  /** First line of the commit message. */
  readonly git_commit_message: string
  /** `manual`, `api`, `push` or `rollback`. Autoscaling changes replicas without a deployment. */
  readonly trigger_source: string
  /** Who requested it, or activated it last: the name or e-mail address of the account, or the author of the push; empty if unknown. */
  readonly author: string
  /** When it first passed its health check; null if it has not. */
  readonly started_at: string | null
  /** Milliseconds from the request until it served, or until it ended without serving; null while neither has happened. */
  readonly duration_ms: number | null
  /** Requests that gateways sent to its VMs since it first served, reported every 10 seconds; a request that is sent again to another VM counts at both. WebSockets count once, TCP services not. */
  readonly requests: number
  /** Those that were answered with 5xx or had no complete answer. */
  readonly failed_requests: number
}

/** Status of a deployment after an action. Wait for the final status with `?wait=` of the deployment. */
export interface DeploymentAction {
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** UUID of the deployment. */
  readonly deployment_id: string
  /** Current status of the deployment: `pending`, `building`, `scheduled`, `starting`, `running`, `unhealthy`, `pausing`, `paused`, `resuming`, `sleeping`, `migrating`, `stopping`, `stopped`, `superseded`, `failed`, `cancelled`, `deleted`. */
  readonly status: string
}

/** A new version that gets a share of the requests before it gets all. */
export interface DeploymentCanary {
  /** `cancelled`: it was stopped, or a later deployment took its place. */
  readonly state: 'running' | 'passed' | 'failed' | 'cancelled'
  /** Percentage of the requests that it gets. */
  readonly percent: number
  /** Requests that it got, a few seconds behind. */
  readonly requests: number
  /** Those that ended with 5xx or without an answer. */
  readonly failed: number
  /** It fails above this percentage. */
  readonly max_error_percent: number
  /** When it began to get requests. */
  readonly started_at: string
  /** When it gets all requests, unless it fails before; or when the canary ended. */
  readonly ends_at: string
}

/** What differs between two deployments of an app. Values of variables and contents of files are never shown. */
export interface DeploymentDiff {
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** Job id of the deployment that it is compared with; null for the first one of the app. */
  readonly base: string | null
  /** Image, commit, size and settings that differ. */
  readonly fields: readonly DeploymentFieldChange[]
  /** Names of variables that only the deployment has. */
  readonly env_added: readonly string[]
  /** Names of variables that only the base has. */
  readonly env_removed: readonly string[]
  /** Names of variables that have another value. */
  readonly env_changed: readonly string[]
  /** Paths of files that only the deployment has. */
  readonly files_added: readonly string[]
  /** Paths of files that only the base has. */
  readonly files_removed: readonly string[]
  /** Paths of files that have another content, mode or variable. */
  readonly files_changed: readonly string[]
}

/** A field that differs between two deployments. Commands are JSON arrays. */
export interface DeploymentFieldChange {
  /** Field that differs. */
  readonly field: string
  /** Value of the base; null if it is unset. */
  readonly from: string | null
  /** Value of the deployment; null if it is unset. */
  readonly to: string | null
}

/** Initial state of the stream; later events change it. */
export interface DeploymentsSnapshot {
  /** When the snapshot was read. */
  readonly at: string
  /** The newest deployments, at most 100. */
  readonly deployments: readonly Deployment[]
}

/** The status of a deployment has changed. */
export interface DeploymentStatusEvent {
  /** When it happened. */
  readonly at: string
  /** The app that it happened to; null: no app. */
  readonly app_id: string | null
  /** The deployment whose status has changed. */
  readonly deployment_id: string
  /** The same deployment, as paths name it. */
  readonly job_id: string
  /** Name of its app. */
  readonly app_name: string
  /** The new status. */
  readonly status: 'pending' | 'building' | 'scheduled' | 'starting' | 'running' | 'unhealthy' | 'pausing' | 'paused' | 'resuming' | 'sleeping' | 'migrating' | 'stopping' | 'stopped' | 'superseded' | 'failed' | 'cancelled' | 'deleted'
  /** Why it has failed; null: it has not. */
  readonly error_message: string | null
}

/** One step of a start. */
export interface DeploymentStep {
  /** One of `image`, `base`, `disk`, `spawn`, `boot` and `healthy`. */
  readonly name: string
  /** Duration in milliseconds. */
  readonly ms: number
}

export interface DeployRequest {
  /** The app; it is created if it does not exist. */
  readonly app_name: string
  /** OCI image reference; empty: built from the repository of the app. */
  readonly image: string
  /** Repository of the source, for an app that is created or whose image is empty. */
  readonly git_url?: string | null | undefined
  /** MiB of writable disk of each VM. Default: that of the installation. */
  readonly disk_mib?: number | null | undefined
  /** Default: the fastest one that the hosts offer. `vm`: any with a virtual machine and a kernel for each guest, never `gvisor`. */
  readonly hypervisor?: 'firecracker' | 'cloud-hypervisor' | 'gvisor' | 'qemu' | 'vm' | 'fake' | null | undefined
  /** MiB of memory of each VM. Default: that of the installation. */
  readonly memory_mib?: 512 | 1024 | 2048 | 4096 | null | undefined
  /** Port that the program in the VM listens on; it is also passed as `$PORT`. */
  readonly port?: number | null | undefined
  /** Virtual CPUs of each VM. Default: that of the installation. */
  readonly vcpus?: 1 | 2 | 3 | 4 | null | undefined
  /** Explains what would happen, and changes nothing. */
  readonly dry_run?: boolean | null | undefined
}

/** A deployment that was started, or the plan of a dry run. */
export interface DeployResponse {
  /** Id of the new deployment; empty for a dry run. */
  readonly deployment_id: string
  /** Short id of the deployment, used in paths; empty for a dry run. */
  readonly job_id: string
  /** Its first VM; empty until one is placed. */
  readonly vm_id: string
  /** The host of its first VM; empty until it is placed. */
  readonly host_id: string
  /** Tag of the image; empty until it is built. */
  readonly image_tag: string
  /** Status of the deployment. */
  readonly status: string
  /** What happens next, as text for users. */
  readonly message: string
  readonly dry_run?: DryRun | undefined
}

/** A volume that was detached from an app. */
export interface DetachedVolume {
  /** `detached`, or `detaching` while a VM still uses the volume. */
  readonly status: string
  /** What happens in the VM meanwhile; null when no VM uses the volume. */
  readonly message: string | null
}

export interface DetachRuntimeVolumeRequest {
  /** The volume. */
  readonly volume_id?: string | undefined
  /** Where it is mounted. */
  readonly mount_point?: string | undefined
}

/** Proof that the owner of the account asks. Empty in a session that began within 10 minutes. */
export interface DisableTotpRequest {
  /** Password of the account. Not needed with `code`, or in a session that began within 10 minutes. */
  readonly password?: string | null | undefined
  /** Code of the authenticator app or a recovery code. An alternative to `password`. */
  readonly code?: string | null | undefined
}

/** DNS record to set at the name servers of a domain. */
export interface DnsRecord {
  /** The TXT record proves who owns the domain; the CNAME record leads visitors to the app. */
  readonly type: 'TXT' | 'CNAME'
  /** Full name of the record, without a final dot. */
  readonly name: string
  /** Text of the TXT record, or target of the CNAME record. */
  readonly value: string
  /** Why the record is needed, for people. */
  readonly purpose: string
}

/** Custom host name of an app. */
export interface Domain {
  /** UUID of the domain. Paths refer to it by `name`. */
  readonly id: string
  /** App that the domain leads to. */
  readonly app_id: string
  /** Host name in lower case; names in other scripts are converted to ASCII (Punycode). */
  readonly name: string
  /** `pending`: the TXT record has not been found yet. `verified`: requests to the name reach the app. `lost`: it was verified, but the record is gone, and requests are no longer routed. */
  readonly status: 'pending' | 'verified' | 'lost'
  /** Why the last DNS lookup did not verify the domain; null if it did, or before the first one. */
  readonly message: string | null
  /** DNS records to set at the name servers of the domain. */
  readonly records: readonly DnsRecord[]
  readonly certificate: DomainCertificate
  /** When the TXT record was last looked up; null if never. */
  readonly checked_at: string | null
  /** When the domain last became `verified`; null if never. */
  readonly verified_at: string | null
  /** When the domain was added to the app. */
  readonly created_at: string
}

/** TLS certificate that gateways use for the domain. */
export interface DomainCertificate {
  /** `none` until one is issued. Certificates are requested once the domain is verified, if the installation has a certificate authority, and renewed before they expire. */
  readonly status: 'none' | 'valid' | 'expired'
  /** When the certificate expires; null without one. */
  readonly not_after: string | null
  /** Why the last attempt to issue or renew failed; null if it succeeded or there was none. */
  readonly message: string | null
}

/** The name servers of a domain now prove, or no longer prove, that it belongs to the app. */
export interface DomainEvent {
  /** When it happened. */
  readonly at: string
  /** The app that it happened to; null: no app. */
  readonly app_id: string | null
  /** The deployment that it happened to; null: no deployment. */
  readonly deployment_id: string | null
  /** The name, in ASCII. */
  readonly domain: string
  /** Problem found by the last DNS check; null: none. */
  readonly message: string | null
}

/** Effects of a deployment, without deploying. */
export interface DryRun {
  /** The host that would be chosen; null if none fits. */
  readonly host_id: string | null
  /** The hosts that do not fit, with reasons. */
  readonly rejected: readonly RejectedHost[]
  /** Effect on the limits of the plan. */
  readonly plan: string
}

/** Variables that several apps of a project share. */
export interface EnvGroup {
  /** Id of the group. */
  readonly id: string
  /** Name of the group. */
  readonly name: string
  /** How many variables it has. */
  readonly variables: number
  /** Apps that it is attached to. */
  readonly apps: readonly string[]
  /** When it was created. */
  readonly created_at: string
}

/** A variable of a group. */
export interface EnvGroupVariable {
  /** Name of the variable. */
  readonly name: string
  /** When its value was last set. */
  readonly updated_at: string
  /** Whether its value is never shown. */
  readonly secret: boolean
  /** Its value; null for a secret. */
  readonly value: string | null
}

/** A change of variables. Values are not part of it. */
export interface EnvVersion {
  /** Number of the version. */
  readonly version: number
  /** When the variables were changed. */
  readonly created_at: string
  /** Name or e-mail address of the account that changed them; null if unknown, and for what was set before versions were recorded. */
  readonly author: string | null
  /** Variables that were set. */
  readonly set: readonly string[]
  /** Variables that were removed. */
  readonly removed: readonly string[]
  /** The version that this one restored; null: none. */
  readonly restored: number | null
}

/** Error of any operation. */
export interface Error {
  /** Error message for people. */
  readonly error: string
  /** Repeats the HTTP status. */
  readonly status: number
  /** Error code for programs. More codes may be added; fall back on the status. */
  readonly code?: string | undefined
  /** Identifies this request in the logs of the server; also in the header `X-Request-Id`. */
  readonly request_id?: string | undefined
  /** The invalid fields of the request. Absent if no field is invalid. */
  readonly details?: readonly ({
  /** JSON pointer or name of a parameter. */
  readonly field: string
  /** What is wrong with its value. */
  readonly message: string
})[] | undefined
  /** With `plan_limit_exceeded`: the limit that was reached. */
  readonly limit?: string | undefined
  /** With `plan_limit_exceeded`: how much is in use. */
  readonly used?: number | undefined
  /** With `plan_limit_exceeded`: how much the plan allows. */
  readonly max?: number | undefined
}

/** Events were lost because they are no longer kept. Read the resources again. */
export interface EventGap {
  /** Id of the last event that was sent before the gap. */
  readonly after: number
  /** Id of the oldest event that still exists. */
  readonly first_kept: number
  /** When the gap was noticed. */
  readonly at: string
}

/** Output and exit code of a program that ran in the VM. */
export interface ExecAnswer {
  /** Exit code of the program; 124 when it timed out. */
  readonly exit_code: number
  /** Standard output of the program, as UTF-8. */
  readonly stdout: string
  /** Standard error of the program, as UTF-8. */
  readonly stderr: string
  /** Whether the output was cut off. */
  readonly truncated: boolean
}

export interface ExecRequest {
  /** The program and its arguments, passed without a shell. */
  readonly command: readonly string[]
  /** Seconds after which the program is killed. Default: 10. */
  readonly timeout_seconds?: number | null | undefined
}

/** One action on files in a VM. */
export interface FileAction {
  /** `read`: the content is the output. `write`: the input replaces the file at once. `list`: lines of type, mode, bytes, time, percent-encoded path and link target. `pack`, `unpack`: a tree as a tar archive. `watch`: a line for each change, until the session is ended. */
  readonly action: 'read' | 'write' | 'list' | 'mkdir' | 'move' | 'remove' | 'pack' | 'unpack' | 'watch'
  /** Path in the VM; relative ones begin at the working directory. */
  readonly path: string
  /** New path. Only with `move`. */
  readonly to?: string | null | undefined
  /** Mode of a written file. Default: of the file that it replaces, otherwise 644. */
  readonly mode?: string | null | undefined
  /** Levels that `list` shows. Default: 0, only the path. */
  readonly depth?: number | null | undefined
  /** Whether `remove` removes a directory with its content, and `watch` all directories below. Default: false. */
  readonly recursive?: boolean | null | undefined
}

/** Account whose password is to be reset. */
export interface ForgotPasswordRequest {
  /** Address of the account. */
  readonly email: string
}

export interface ForkVmSnapshotRequest {
  /** Name of the new app; unique in the project. */
  readonly app_name: string
  /** How many VMs the new app has, 1 to 20. Default: 1. */
  readonly replicas?: number | null | undefined
}

/** How builds of an app read its repository, without secrets. */
export interface GitCredential {
  /** `token`: read over https with a user name and a token. `ssh_key`: read over SSH with a deploy key. */
  readonly kind: 'token' | 'ssh_key'
  /** Git host that the credential is sent to, with its port if it is not the usual one; no other host. */
  readonly host: string
  /** User name that is sent with a token; empty for an SSH key. */
  readonly username: string
  /** Add it to the repository as a read-only deploy key. Null for a token. */
  readonly public_key: string | null
  /** SSH host keys that the Git host is recognized by. Null for a token. */
  readonly known_hosts: string | null
  /** When the credential was last set. */
  readonly updated_at: string
}

/** State of the control plane and of the services it depends on. */
export interface Health {
  /** `ok`, or `unavailable` when a service that writes need is down. */
  readonly status: string
  /** Version of the product, not of this contract. */
  readonly version: string
  /** State of each service that this program needs, by its name: `ok` or `unavailable`. */
  readonly services: Readonly<Record<string, string>>
}

/** The health at one moment. */
export interface HealthEvent {
  /** When the state was read. */
  readonly at: string
  /** `ok`, or `unavailable` when a service that writes need is down. */
  readonly status: string
  /** Version of the product, not of this contract. */
  readonly version: string
  /** State of each service that this program needs, by its name: `ok` or `unavailable`. */
  readonly services: Readonly<Record<string, string>>
}

/** Requests and resource usage of an app in one period. */
export interface HistoryPoint {
  /** Start of the period. */
  readonly at: string
  /** Length of the period; the last one may be shorter than the others. */
  readonly seconds: number
  /** Requests that ended, including those without an answer. */
  readonly requests: number
  /** Connections that switched protocols, such as WebSockets. */
  readonly status_1xx: number
  /** Answers with a status from 200 to 299. */
  readonly status_2xx: number
  /** Answers with a status from 300 to 399. */
  readonly status_3xx: number
  /** Answers with a status from 400 to 499. */
  readonly status_4xx: number
  /** Answers with a status from 500 to 599. */
  readonly status_5xx: number
  /** Requests whose client disconnected before an answer. */
  readonly aborted: number
  /** Of the answers with 4xx and 5xx, those that the gateway gave itself: limits exceeded, no healthy VM, no answer from the app. */
  readonly gateway_errors: number
  /** Size of the bodies of the requests. */
  readonly bytes_in: number
  /** Size of the bodies of the answers. */
  readonly bytes_out: number
  /** Milliseconds until the first byte of the answer that half of the requests did not exceed; null without answers. */
  readonly latency_p50_ms: number | null
  /** Milliseconds until the first byte of the answer that 95 % of the requests did not exceed; null without answers. */
  readonly latency_p95_ms: number | null
  /** Milliseconds until the first byte of the answer that 99 % of the requests did not exceed; null without answers. */
  readonly latency_p99_ms: number | null
  /** Mean CPU usage of the VMs in percent of their vCPUs, 0 to 100; null while none ran. */
  readonly cpu_usage: number | null
  /** Highest sample of the CPU usage. */
  readonly cpu_peak: number | null
  /** Mean memory that the VMs used together. */
  readonly ram_used_bytes: number | null
  /** Highest sample of the used memory. */
  readonly ram_peak_bytes: number | null
  /** Mean memory that the VMs had together. */
  readonly memory_bytes: number | null
  /** Mean number of running VMs. */
  readonly replicas: number | null
  /** Bytes that the VMs received. */
  readonly rx_bytes: number
  /** Bytes that the VMs sent. */
  readonly tx_bytes: number
}

/** Requests and resource usage of an app in a whole range. */
export interface HistoryTotals {
  /** Requests that ended, including those without an answer. */
  readonly requests: number
  /** Connections that switched protocols, such as WebSockets. */
  readonly status_1xx: number
  /** Answers with a status from 200 to 299. */
  readonly status_2xx: number
  /** Answers with a status from 300 to 399. */
  readonly status_3xx: number
  /** Answers with a status from 400 to 499. */
  readonly status_4xx: number
  /** Answers with a status from 500 to 599. */
  readonly status_5xx: number
  /** Requests whose client disconnected before an answer. */
  readonly aborted: number
  /** Of the answers with 4xx and 5xx, those that the gateway gave itself: limits exceeded, no healthy VM, no answer from the app. */
  readonly gateway_errors: number
  /** Size of the bodies of the requests. */
  readonly bytes_in: number
  /** Size of the bodies of the answers. */
  readonly bytes_out: number
  /** Milliseconds until the first byte of the answer that half of the requests did not exceed; null without answers. */
  readonly latency_p50_ms: number | null
  /** Milliseconds until the first byte of the answer that 95 % of the requests did not exceed; null without answers. */
  readonly latency_p95_ms: number | null
  /** Milliseconds until the first byte of the answer that 99 % of the requests did not exceed; null without answers. */
  readonly latency_p99_ms: number | null
  /** Mean CPU usage of the VMs in percent of their vCPUs, 0 to 100; null while none ran. */
  readonly cpu_usage: number | null
  /** Highest sample of the CPU usage. */
  readonly cpu_peak: number | null
  /** Mean memory that the VMs used together. */
  readonly ram_used_bytes: number | null
  /** Highest sample of the used memory. */
  readonly ram_peak_bytes: number | null
  /** Mean memory that the VMs had together. */
  readonly memory_bytes: number | null
  /** Mean number of running VMs. */
  readonly replicas: number | null
  /** Bytes that the VMs received. */
  readonly rx_bytes: number
  /** Bytes that the VMs sent. */
  readonly tx_bytes: number
}

/** Machine that runs VMs, with its capacity and what is reserved of it. */
export interface Host {
  /** UUID that the agent of the host chose when it first started. */
  readonly id: string
  /** Host name, or the name that its agent is configured with. */
  readonly name: string
  /** `up`: its agent reports. `suspected`: its agent is silent, so nothing new is placed there. `lost`: silent for too long; its VMs are replaced on other hosts. */
  readonly status: 'up' | 'suspected' | 'lost'
  /** Whether new VMs are kept away from the host. */
  readonly cordoned: boolean
  /** Whether its VMs and volumes are being moved to other hosts. A draining host is cordoned, too. */
  readonly draining: boolean
  /** Version of the agent on the host. */
  readonly version: string
  /** Processor architecture of the host and its VMs: `x64` or `arm64`. */
  readonly arch: string
  /** `tap`: VMs have private networks and security rules. `user`: the agent has no root, so VMs are reached through the gateway only. `fake`: simulated. */
  readonly network: string
  /** Hypervisors that the agent looked for. */
  readonly hypervisors: readonly HostHypervisor[]
  /** vCPUs that can be assigned to VMs: more than the host has processors, by the configured overcommit. */
  readonly vcpus: number
  /** Memory that can be assigned to VMs, in MiB. Never overcommitted. */
  readonly memory_mib: number
  /** Disk space for the writable disks of VMs, in MiB. */
  readonly disk_mib: number
  /** vCPUs reserved for VMs. */
  readonly used_vcpus: number
  /** Memory reserved for VMs, in MiB. */
  readonly used_memory_mib: number
  /** Disk space reserved for VMs, in MiB. */
  readonly used_disk_mib: number
  /** VMs that belong on the host. */
  readonly vms: number
  /** VMs that were replaced elsewhere while the host was silent and may still run on it. Their resources stay reserved. */
  readonly strays: number
  /** Its labels: those of its agent, and those set here, which win. */
  readonly labels: Readonly<Record<string, string>>
  /** Labels that its agent is configured with. */
  readonly agent_labels: Readonly<Record<string, string>>
  /** When its agent last reported. */
  readonly last_seen_at: string
  /** When its agent first reported. */
  readonly created_at: string
}

/** Host, and while it is drained, what is still on it. */
export interface HostDetails {
  /** UUID that the agent of the host chose when it first started. */
  readonly id: string
  /** Host name, or the name that its agent is configured with. */
  readonly name: string
  /** `up`: its agent reports. `suspected`: its agent is silent, so nothing new is placed there. `lost`: silent for too long; its VMs are replaced on other hosts. */
  readonly status: 'up' | 'suspected' | 'lost'
  /** Whether new VMs are kept away from the host. */
  readonly cordoned: boolean
  /** Whether its VMs and volumes are being moved to other hosts. A draining host is cordoned, too. */
  readonly draining: boolean
  /** Version of the agent on the host. */
  readonly version: string
  /** Processor architecture of the host and its VMs: `x64` or `arm64`. */
  readonly arch: string
  /** `tap`: VMs have private networks and security rules. `user`: the agent has no root, so VMs are reached through the gateway only. `fake`: simulated. */
  readonly network: string
  /** Hypervisors that the agent looked for. */
  readonly hypervisors: readonly HostHypervisor[]
  /** vCPUs that can be assigned to VMs: more than the host has processors, by the configured overcommit. */
  readonly vcpus: number
  /** Memory that can be assigned to VMs, in MiB. Never overcommitted. */
  readonly memory_mib: number
  /** Disk space for the writable disks of VMs, in MiB. */
  readonly disk_mib: number
  /** vCPUs reserved for VMs. */
  readonly used_vcpus: number
  /** Memory reserved for VMs, in MiB. */
  readonly used_memory_mib: number
  /** Disk space reserved for VMs, in MiB. */
  readonly used_disk_mib: number
  /** VMs that belong on the host. */
  readonly vms: number
  /** VMs that were replaced elsewhere while the host was silent and may still run on it. Their resources stay reserved. */
  readonly strays: number
  /** Its labels: those of its agent, and those set here, which win. */
  readonly labels: Readonly<Record<string, string>>
  /** Labels that its agent is configured with. */
  readonly agent_labels: Readonly<Record<string, string>>
  /** When its agent last reported. */
  readonly last_seen_at: string
  /** When its agent first reported. */
  readonly created_at: string
  /** VMs that are still on the host, at most 100, and what each waits for. Absent unless it is draining. */
  readonly leaving?: readonly LeavingVm[] | undefined
  /** Volumes without a VM that are still on the host, at most 100, and what each waits for. Absent unless it is draining. */
  readonly leaving_volumes?: readonly LeavingVolume[] | undefined
}

/** Hypervisor that a host offers, or why it does not. */
export interface HostHypervisor {
  /** `firecracker`, `cloud-hypervisor`, `qemu`, or `fake` for a simulated one. */
  readonly name: string
  /** Whether VMs with it can run on the host. */
  readonly available: boolean
  /** Version and acceleration, or why it is not available, as text for operators. */
  readonly detail: string
}

/** Label by which apps can choose hosts. */
export interface HostLabel {
  /** Name of the label. */
  readonly name: string
  /** Values that hosts have. */
  readonly values: readonly string[]
}

export interface HostLabelsRequest {
  /** All labels that are set here. Those of the agent stay, unless one of the same name is set here. */
  readonly labels: Readonly<Record<string, string>>
}

/** Offer to an e-mail address to join a project. */
export interface Invitation {
  /** Identifies the invitation when it is accepted or withdrawn. */
  readonly id: string
  /** Slug of the project. */
  readonly project: string
  /** Display name of the project. */
  readonly project_name: string
  /** Address that is invited, in lower case. */
  readonly email: string
  /** Role in the project after joining: `admin` also renames the project and manages members and viewers, `member` works with its resources, `viewer` only reads. */
  readonly role: 'admin' | 'member' | 'viewer'
  /** When the address was first invited. */
  readonly created_at: string
  /** End of the invitation, seven days after it was made or last renewed. */
  readonly expires_at: string
}

/** Address to invite, and the role it is offered. */
export interface InviteMemberRequest {
  /** Address to invite. It does not need an account yet. */
  readonly email: string
  /** Role in the project after joining: `admin` also renames the project and manages members and viewers, `member` works with its resources, `viewer` only reads. */
  readonly role: 'admin' | 'member' | 'viewer'
}

/** A command that runs by a schedule. */
export interface Job {
  /** Identifies the job. */
  readonly id: string
  /** Name of the job; unique in its app. */
  readonly name: string
  /** Minute, hour, day of month, month and day of week, as in crontab; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  readonly schedule: string
  /** IANA time zone of the schedule. */
  readonly time_zone: string
  /** The program and its arguments. */
  readonly command: readonly string[]
  /** What happens at a time when an earlier run has not ended. `skip`: nothing. `allow`: both run. `replace`: the earlier one is cancelled. */
  readonly overlap: 'skip' | 'allow' | 'replace'
  /** How often a run that failed is repeated. */
  readonly retries: number
  /** Seconds after which a run is ended. */
  readonly timeout_seconds: number
  /** Whether the schedule is suspended. */
  readonly paused: boolean
  /** The next time; null while paused, or if there is none. */
  readonly next_at: string | null
  /** Why the last time had no run; null if it had one. */
  readonly note: string | null
  /** When it was created. */
  readonly created_at: string
  /** When it was last changed. */
  readonly updated_at: string
}

/** VM that is still on a draining host. */
export interface LeavingVm {
  /** VM that is still on the host. */
  readonly vm_id: string
  /** Project that owns it. */
  readonly project_id: string
  /** App that the VM runs, or the internal app of a database. */
  readonly app_name: string
  /** Deployment that the VM belongs to. */
  readonly job_id: string
  /** `moving`: moving to another host. `waiting`: leaves without further action. `staying`: leaves only after an operator does what `reason` says. */
  readonly state: 'moving' | 'waiting' | 'staying'
  /** What it waits for and what to do about it, as text for operators. */
  readonly reason: string
}

/** Volume without a VM that is still on a draining host. */
export interface LeavingVolume {
  /** Volume that is still on the host. */
  readonly volume_id: string
  /** Project that owns it. */
  readonly project_id: string
  /** Name of the volume in its project. */
  readonly name: string
  /** `moving`: moving to another host. `waiting`: leaves without further action. `staying`: leaves only after an operator does what `reason` says. */
  readonly state: 'moving' | 'waiting' | 'staying'
  /** What it waits for and what to do about it, as text for operators. */
  readonly reason: string
}

/** A live deployment, with its numbers as hosts last reported them. */
export interface LiveDeployment {
  /** The app that the deployment belongs to. */
  readonly app_id: string
  /** Name of the app. */
  readonly app_name: string
  /** Id of the deployment. */
  readonly deployment_id: string
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** Its first VM; empty until one is placed. */
  readonly vm_id: string
  /** The host of its first VM; empty until it is placed. */
  readonly host_id: string
  /** Hypervisor of its first VM; empty while the scheduler has not chosen one. */
  readonly hypervisor: string
  /** Image of the deployment. */
  readonly image: string
  /** IPv6 address of its first VM; empty until it has one. */
  readonly ipv6_address: string
  /** Current status of the deployment: `pending`, `building`, `scheduled`, `starting`, `running`, `unhealthy`, `pausing`, `paused`, `resuming`, `sleeping`, `migrating`, `stopping`, `stopped`, `superseded`, `failed`, `cancelled`, `deleted`. */
  readonly status: string
  readonly scale_state: AppScaleState
  /** Mean CPU usage of its VMs in percent of their vCPUs, 0 to 100. */
  readonly cpu_usage: number
  /** Memory of each VM in MiB. */
  readonly memory_mib: number
  /** Total memory that its VMs use. */
  readonly ram_used_bytes: number
  /** Bytes that its VMs have received since they started. */
  readonly rx_bytes: number
  /** Bytes that its VMs have sent since they started. */
  readonly tx_bytes: number
  /** Virtual CPUs of each VM. */
  readonly vcpus: number
}

/** The current state of a deployment. */
export interface LiveDeploymentStatus {
  /** The app that the deployment belongs to. */
  readonly app_id: string
  /** Name of the app. */
  readonly app_name: string
  /** Id of the deployment. */
  readonly deployment_id: string
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** Its first VM; empty until one is placed. */
  readonly vm_id: string
  /** The host of its first VM; empty until it is placed. */
  readonly host_id: string
  /** Hypervisor of its first VM; empty while the scheduler has not chosen one. */
  readonly hypervisor: string
  /** Image of the deployment. */
  readonly image: string
  /** IPv6 address of its first VM; empty until it has one. */
  readonly ipv6_address: string
  /** Current status of the deployment: `pending`, `building`, `scheduled`, `starting`, `running`, `unhealthy`, `pausing`, `paused`, `resuming`, `sleeping`, `migrating`, `stopping`, `stopped`, `superseded`, `failed`, `cancelled`, `deleted`. */
  readonly status: string
  readonly scale_state: AppScaleState
  /** Mean CPU usage of its VMs in percent of their vCPUs, 0 to 100. */
  readonly cpu_usage: number
  /** Memory of each VM in MiB. */
  readonly memory_mib: number
  /** Total memory that its VMs use. */
  readonly ram_used_bytes: number
  /** Bytes that its VMs have received since they started. */
  readonly rx_bytes: number
  /** Bytes that its VMs have sent since they started. */
  readonly tx_bytes: number
  /** Virtual CPUs of each VM. */
  readonly vcpus: number
  /** Why the deployment failed, or what it waits for; empty if neither. */
  readonly error_message: string
  /** When it was placed on a host, in seconds since 1970; 0 if that has not happened. */
  readonly scheduled_at: number
  /** When it first passed its health check, in seconds since 1970; 0 if that has not happened. */
  readonly started_at: number
  /** When its last VM stopped, in seconds since 1970; 0 if that has not happened. */
  readonly stopped_at: number
  readonly canary: DeploymentCanary | null
  /** Duration of each step of the start of its first VM. */
  readonly steps: readonly DeploymentStep[]
}

/** A VM wrote faster than its lines could be processed: some are missing here. */
export interface LogGap {
  /** The VM that wrote the line. */
  readonly vm_id: string
  /** Number of missing lines. */
  readonly dropped_lines: number
  /** When the gap was noticed. */
  readonly at: string
}

/** Credentials of an account. */
export interface LoginRequest {
  /** Address of the account. Case does not matter. */
  readonly email: string
  /** Password of the account. */
  readonly password: string
  /** Six digits from the authenticator app, or a recovery code. Only with two-factor authentication. */
  readonly code?: string | null | undefined
}

/** One line of a log. */
export interface LogLine {
  /** When the host read the line, to the microsecond. */
  readonly at: string
  /** Who wrote the line: the program (`app`), or the platform about its VM or its build (`platform`). */
  readonly source: 'app' | 'platform'
  /** Source of the line: the program, the platform (`system`), or the build of the image (`build`). */
  readonly stream: 'stdout' | 'stderr' | 'system' | 'build'
  /** The text, without its line break, at most 16 KiB. */
  readonly line: string
  /** The deployment of the VM. */
  readonly deployment_id: string
  /** The VM that wrote the line. */
  readonly vm_id: string
}

/** Part of the log of an app. */
export interface LogPage {
  /** The lines, in the requested order. */
  readonly lines: readonly LogLine[]
  /** Goes on in the same direction. Null: there are no more lines. With `oldest` and without `until` there is always one, because lines may follow. */
  readonly next_cursor: string | null
  /** Goes back from the first line, with the other `order`. Null: the page is empty. */
  readonly prev_cursor: string | null
  /** Older lines were not searched: `since`, or the end of the retention. */
  readonly searched_from: string
  /** Lines older than this are removed. */
  readonly retention_days: number
  /** Number of VMs whose lines are missing, because their host does not answer. */
  readonly unavailable_vms: number
}

/** Initial event of the stream; history lines follow, oldest first. */
export interface LogSnapshot {
  /** When the stream began. */
  readonly at: string
  /** The VMs whose lines the stream sends, including builds. */
  readonly vms: readonly string[]
}

/** Whether a link was mailed. */
export interface MailedLink {
  /** `sent`: a link is on its way. `sent_a_moment_ago`: the last one is less than a minute old; wait for it. */
  readonly status: 'sent' | 'sent_a_moment_ago'
}

/** Account that belongs to a project, and its role there. */
export interface Member {
  /** Account of the member. */
  readonly user_id: string
  /** Address the member signs in with. */
  readonly email: string
  /** Given name; null if never set. */
  readonly first_name: string | null
  /** Family name; null if never set. */
  readonly last_name: string | null
  /** `owner` may do everything, `admin` also renames the project and manages members and viewers, `member` works with its resources, `viewer` only reads. */
  readonly role: 'owner' | 'admin' | 'member' | 'viewer'
  /** When the account joined the project. */
  readonly since: string
}

/** Members of a project and open invitations to it. */
export interface MemberList {
  /** Members of the project, the longest-standing first. */
  readonly members: readonly Member[]
  /** Open invitations, oldest first. Expired ones are left out. */
  readonly invitations: readonly Invitation[]
}

/** The mesh at one moment. */
export interface MeshEvent {
  /** When the state was read. */
  readonly at: string
  /** Whether any host is in the mesh. */
  readonly enabled: boolean
  /** Every host of the installation, by name. */
  readonly nodes: readonly MeshNode[]
}

/** Host, and how the others reach it. */
export interface MeshNode {
  /** UUID of the host. */
  readonly host_id: string
  /** Name of the host. */
  readonly name: string
  /** IPv6 address of the host in the mesh; null outside the mesh and for callers who are not Admin. */
  readonly address: string | null
  /** WireGuard public key of the host; null outside the mesh and for callers who are not Admin. */
  readonly public_key: string | null
  /** Address and UDP port where other hosts reach it; null outside the mesh and for callers who are not Admin. */
  readonly endpoint: string | null
  /** `up`, `degraded`, `unreachable`: all, some or none of the other reporting hosts are connected, in both directions. `alone`: there is no other host. `down`: its agent is silent. `failed`: its mesh does not start; see the log of its agent. `off`: not in the mesh. */
  readonly status: 'up' | 'degraded' | 'unreachable' | 'alone' | 'down' | 'failed' | 'off'
  /** Newest WireGuard handshake with any other host; null if there was none. */
  readonly last_handshake_at: string | null
  /** Bytes received over the mesh since its tunnels were set up. */
  readonly rx_bytes: number
  /** Bytes sent over the mesh since its tunnels were set up. */
  readonly tx_bytes: number
  /** Median round trip to the connected hosts, in milliseconds; null without a connected host. */
  readonly latency_ms: number | null
}

/** State of the private network between hosts. */
export interface MeshStatus {
  /** Whether any host is in the mesh. */
  readonly enabled: boolean
  /** Every host of the installation, by name. */
  readonly nodes: readonly MeshNode[]
}

/** The live numbers of one deployment, once a second. */
export interface MetricsEvent {
  /** When the numbers were read. */
  readonly at: string
  /** The app that the deployment belongs to. */
  readonly app_id: string
  /** Name of the app. */
  readonly app_name: string
  /** Id of the deployment. */
  readonly deployment_id: string
  /** Short id of the deployment, used in paths. */
  readonly job_id: string
  /** Its first VM; empty until one is placed. */
  readonly vm_id: string
  /** The host of its first VM; empty until it is placed. */
  readonly host_id: string
  /** Hypervisor of its first VM; empty while the scheduler has not chosen one. */
  readonly hypervisor: string
  /** Image of the deployment. */
  readonly image: string
  /** IPv6 address of its first VM; empty until it has one. */
  readonly ipv6_address: string
  /** Current status of the deployment: `pending`, `building`, `scheduled`, `starting`, `running`, `unhealthy`, `pausing`, `paused`, `resuming`, `sleeping`, `migrating`, `stopping`, `stopped`, `superseded`, `failed`, `cancelled`, `deleted`. */
  readonly status: string
  readonly scale_state: AppScaleState
  /** Mean CPU usage of its VMs in percent of their vCPUs, 0 to 100. */
  readonly cpu_usage: number
  /** Memory of each VM in MiB. */
  readonly memory_mib: number
  /** Total memory that its VMs use. */
  readonly ram_used_bytes: number
  /** Bytes that its VMs have received since they started. */
  readonly rx_bytes: number
  /** Bytes that its VMs have sent since they started. */
  readonly tx_bytes: number
  /** Virtual CPUs of each VM. */
  readonly vcpus: number
}

/** Initial state of the stream. */
export interface MetricsSnapshot {
  /** When the numbers were read. */
  readonly at: string
  /** All live deployments. */
  readonly deployments: readonly LiveDeployment[]
}

/** The newest move of a VM to another host. */
export interface MigrationStatus {
  /** `preparing`, `copying`, `switching` and `clearing` follow each other; `completed`, `cancelled` and `failed` are final; `none`: the VM has never moved. */
  readonly status: 'preparing' | 'copying' | 'switching' | 'clearing' | 'cancelling' | 'completed' | 'cancelled' | 'failed' | 'none'
  /** Same as `status`. */
  readonly phase: 'preparing' | 'copying' | 'switching' | 'clearing' | 'cancelling' | 'completed' | 'cancelled' | 'failed' | 'none'
  /** Id of the migration. With `none`, this and all following fields are absent. */
  readonly migration_id?: string | undefined
  /** `live`: the VM runs while its memory is copied. `stop-and-copy`: it does not run meanwhile. */
  readonly method?: 'live' | 'stop-and-copy' | undefined
  /** Whether volumes of the VM move with it. */
  readonly with_volumes?: boolean | undefined
  /** The VM that moves. */
  readonly vm_id?: string | undefined
  /** Id of the host that the VM leaves. */
  readonly source_host?: string | undefined
  /** Id of the host that the VM moves to. */
  readonly target_host?: string | undefined
  /** Copied share, 0 to 100. */
  readonly percent?: number | undefined
  /** Bytes copied so far. */
  readonly transferred_bytes?: number | undefined
  /** Bytes to copy; 0 while unknown. */
  readonly total_bytes?: number | undefined
  /** Milliseconds for which the VM was paused; null until it has moved. */
  readonly downtime_ms?: number | null | undefined
  /** Why it failed; null if it did not. */
  readonly error?: string | null | undefined
  /** When the migration was requested. */
  readonly started_at?: string | undefined
  /** When it ended; null while it runs. */
  readonly ended_at?: string | null | undefined
}

/** A file or directory and its new path. */
export interface MoveVmFileRequest {
  /** Absolute path in the VM. */
  readonly path?: string | null | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | null | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | null | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | null | undefined
  /** New absolute path, on the same file system. */
  readonly to?: string | null | undefined
  /** Instead of `to`: the new path with percent-encoded bytes. */
  readonly encoded_to?: string | null | undefined
  /** Whether a file at the new path is replaced. Default: false. */
  readonly replace?: boolean | null | undefined
}

export interface MoveVolumeRequest {
  /** Id or name of the host to move to. */
  readonly target_host: string
}

/** Message to one account about something that happened. */
export interface Notification {
  /** Identifies the notification when it is marked as read. */
  readonly id: string
  /** Project of the event; for notifications about an account, its default project. */
  readonly tenant_id: string
  /** Account that receives it. Only this account can read it. */
  readonly user_id: string
  /** What happened, in a few words. */
  readonly title: string
  /** What it means and what to do, in plain text. */
  readonly body: string
  /** What happened, for programs, such as `deployment.failed` or `security.new_login`. New kinds may be added. */
  readonly kind: string
  /** Name of the affected resource, e.g. an app. */
  readonly entity_name: string
  /** Id of the affected resource; empty for announcements. */
  readonly resource_id: string
  /** Path in the dashboard that shows more. */
  readonly route: string
  /** Object with more about it, depending on the kind, such as the address of a sign-in; null if nothing. */
  readonly metadata: JsonValue
  /** Whether it was marked as read. */
  readonly is_read: boolean
  /** When it happened. */
  readonly created_at: string
  /** When it was first marked as read. Absent while it is unread. */
  readonly read_at?: string | undefined
}

/** A notification for the user who reads the stream. */
export interface NotificationEvent {
  /** Identifies the notification when it is marked as read. */
  readonly id: string
  /** Project of the event; for notifications about an account, its default project. */
  readonly tenant_id: string
  /** Account that receives it. Only this account can read it. */
  readonly user_id: string
  /** What happened, in a few words. */
  readonly title: string
  /** What it means and what to do, in plain text. */
  readonly body: string
  /** What happened, for programs, such as `deployment.failed` or `security.new_login`. New kinds may be added. */
  readonly kind: string
  /** Name of the affected resource, e.g. an app. */
  readonly entity_name: string
  /** Id of the affected resource; empty for announcements. */
  readonly resource_id: string
  /** Path in the dashboard that shows more. */
  readonly route: string
  /** Object with more about it, depending on the kind, such as the address of a sign-in; null if nothing. */
  readonly metadata: JsonValue
  /** Whether it was marked as read. */
  readonly is_read: boolean
  /** When it happened. */
  readonly created_at: string
  /** When it was first marked as read. Absent while it is unread. */
  readonly read_at?: string | undefined
  /** When it happened. */
  readonly at: string
  /** The app that it happened to; null: no app. */
  readonly app_id: string | null
  /** The deployment that it happened to; null: no deployment. */
  readonly deployment_id: string | null
}

/** Page of notifications, with counts. */
export interface NotificationList {
  /** Notifications of this page, newest first. */
  readonly notifications: readonly Notification[]
  /** Unread notifications on all pages, whatever the filter. */
  readonly unread_count: number
  /** Whether older ones follow on another page. */
  readonly has_more: boolean
  /** `offset` of the next page. */
  readonly next_offset: number
}

/** A document by OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0). */
export interface OpenApiDocument {
  /** Version of OpenAPI. */
  readonly openapi: string
  /** Title, version and introduction of the contract. */
  readonly info: Readonly<Record<string, JsonValue>>
  /** Bases of the paths. */
  readonly servers: readonly (Readonly<Record<string, JsonValue>>)[]
  /** Groups of operations. */
  readonly tags: readonly (Readonly<Record<string, JsonValue>>)[]
  /** The operations by path and method. */
  readonly paths: Readonly<Record<string, JsonValue>>
  /** Schemas, headers and answers that operations share. */
  readonly components: Readonly<Record<string, JsonValue>>
}

/** Program to run beside the app. */
export interface OpenVmSessionRequest {
  /** The program and its arguments, passed without a shell. Required without `port` and `file`. */
  readonly command?: readonly string[] | undefined
  /** Connects to this TCP port in the VM instead of running a program. */
  readonly port?: number | null | undefined
  /** Reads or changes files with a tool that needs nothing of the image. Data are its input or output. */
  readonly file?: FileAction | null | undefined
  /** Environment variables in addition to those of the app. Values are not stored. */
  readonly env?: Readonly<Record<string, string>> | null | undefined
  /** Working directory. Default: of the image. */
  readonly cwd?: string | null | undefined
  /** Name or number of the user. Default: of the image. */
  readonly user?: string | null | undefined
  /** Runs the program in a terminal of this size. Default: pipes. */
  readonly tty?: TerminalSize | null | undefined
  /** Opens a pipe for input. A terminal always has input. Default: false. */
  readonly stdin?: boolean | null | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | null | undefined
  /** Seconds without a client after which the program is ended; 0: never. Default: 900. */
  readonly idle_timeout_seconds?: number | null | undefined
}

/** Registry that belongs to the installation. */
export interface OwnRegistry {
  /** Host of the registry; null if this installation has none. */
  readonly host: string | null
  /** What names of images of the project begin with. */
  readonly prefix: string | null
}

/** Long-lived credential for scripts and CI, without the token itself. */
export interface PersonalAccessToken {
  /** Identifies the token when it is revoked. */
  readonly id: string
  /** Account on whose behalf the token acts. */
  readonly user_id: string
  /** Label chosen by its owner. */
  readonly name: string
  /** Last four characters of the token, to recognize it by. The rest is not stored. */
  readonly token_last_four: string
  /** When the token was created. */
  readonly created_at: string
  /** When the token was last used, to within about a minute; null if never. */
  readonly last_used_at: string | null
  /** What the token may do. `admin` includes `write`; `write` includes `deploy` and `exec` (programs, terminals and files in a VM); each includes `read`. */
  readonly scopes?: readonly ('read' | 'exec' | 'deploy' | 'write' | 'admin')[] | undefined
  /** Slug of the only project the token may act in; null for every project of its owner. */
  readonly project?: string | null | undefined
  /** When the token stops working; null for never. */
  readonly expires_at?: string | null | undefined
}

/** What the plan allows. A request for more is refused with 403 `plan_limit_exceeded`; what exists is never removed. 1000000000 means unlimited. */
export interface PlanLimits {
  /** Whether apps may scale automatically. */
  readonly autoscaling_allowed: boolean
  /** Whether apps may have custom domains. */
  readonly custom_domains: boolean
  /** Apps in the project. */
  readonly max_apps: number
  /** Managed databases in the project. */
  readonly max_databases: number
  /** Deployments that one app may have at a time. */
  readonly max_deployments_per_app: number
  /** Memory of everything that runs in the project, in MiB. */
  readonly max_memory_mb_total: number
  /** Size of all volumes in the project, in GiB. */
  readonly max_storage_gb_total: number
  /** Members and open invitations. */
  readonly max_team_members: number
  /** vCPUs of everything that runs in the project. */
  readonly max_vcpus_total: number
  /** Volumes in the project. */
  readonly max_volumes: number
}

/** The same as `Error` in the format of RFC 9457, for clients that accept `application/problem+json`. */
export interface Problem {
  /** `about:blank`: `code` says more. */
  readonly type: string
  /** The HTTP status in words. */
  readonly title: string
  /** Error message for people. */
  readonly detail: string
  /** Error message for people. */
  readonly error?: string | undefined
  /** Repeats the HTTP status. */
  readonly status: number
  /** Error code for programs. More codes may be added; fall back on the status. */
  readonly code?: string | undefined
  /** Identifies this request in the logs of the server; also in the header `X-Request-Id`. */
  readonly request_id?: string | undefined
  /** The invalid fields of the request. Absent if no field is invalid. */
  readonly details?: readonly ({
  /** JSON pointer or name of a parameter. */
  readonly field: string
  /** What is wrong with its value. */
  readonly message: string
})[] | undefined
  /** With `plan_limit_exceeded`: the limit that was reached. */
  readonly limit?: string | undefined
  /** With `plan_limit_exceeded`: how much is in use. */
  readonly used?: number | undefined
  /** With `plan_limit_exceeded`: how much the plan allows. */
  readonly max?: number | undefined
}

/** Product to buy. */
export interface ProductChoice {
  /** Product from `GET /v1/billing/products` that is not archived. In a checkout, null means the chosen or else the default product; when choosing, null means the default product. */
  readonly product_id?: string | null | undefined
}

/** Workspace that owns apps, volumes and databases, also called a tenant. */
export interface Project {
  /** UUID of the project, which other resources call `tenant_id` or `project_id`. */
  readonly id: string
  /** Slug of the project: unique in the installation, part of the host names of its apps, never changed. */
  readonly tenant_id: string
  /** Shown in the dashboard and in notifications. */
  readonly name: string
  /** When the project was created. */
  readonly created_at: string
  /** When the project was last changed, for example renamed. */
  readonly updated_at: string
}

export interface PutAppEnvRequest {
  /** The value. It is stored encrypted. */
  readonly value: string
  /** Whether the value is never shown again. `false`: members of the project can read it. Default: true. */
  readonly secret?: boolean | null | undefined
}

export interface PutAppFileRequest {
  /** Absolute path in the VM. */
  readonly path: string
  /** Mode of the file, in octal digits. Default: 0644. */
  readonly mode?: string | null | undefined
  /** Content in base64. Either this or `variable` is required. */
  readonly content?: string | null | undefined
  /** Variable of the app whose value becomes the content. */
  readonly variable?: string | null | undefined
  /** Whether the content is never shown again. Default: false; always with `variable`. */
  readonly secret?: boolean | null | undefined
}

export interface PutEnvGroupVariableRequest {
  /** The value. It is stored encrypted. */
  readonly value: string
  /** Whether the value is never shown again. `false`: members of the project can read it. Default: true. */
  readonly secret?: boolean | null | undefined
}

/** Token, or request for a new deploy key. */
export interface PutGitCredentialRequest {
  /** `token`: for a `git_url` that starts with `https://`. `ssh_key`: for one over SSH; a key pair is made here and its private half is never shown. */
  readonly kind: 'token' | 'ssh_key'
  /** User name to send with a token. Default: `git`, which most hosts accept. Ignored for an SSH key. */
  readonly username?: string | null | undefined
  /** Token or password that may read the repository. Required with `token`, refused with `ssh_key`; never shown again. */
  readonly token?: string | null | undefined
  /** Required with `ssh_key`: SSH host keys as `ssh-keyscan` prints them, at most 50 lines. Compare them with what the Git host publishes. */
  readonly known_hosts?: string | null | undefined
}

/** A command and its schedule. */
export interface PutJobRequest {
  /** Minute, hour, day of month, month and day of week, as in crontab; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  readonly schedule: string
  /** The program and its arguments, without a shell. */
  readonly command: readonly string[]
  /** IANA time zone of the schedule. Default: UTC. */
  readonly time_zone?: string | null | undefined
  /** What happens at a time when an earlier run has not ended. `skip`: nothing. `allow`: both run. `replace`: the earlier one is cancelled. Default: `skip`. */
  readonly overlap?: 'skip' | 'allow' | 'replace' | null | undefined
  /** How often a run that failed is repeated. Default: 0. */
  readonly retries?: number | null | undefined
  /** Seconds after which a run is ended. Default: 3600. */
  readonly timeout_seconds?: number | null | undefined
  /** Whether the schedule is suspended. Default: false. */
  readonly paused?: boolean | null | undefined
}

/** User name and password for an image registry. */
export interface PutRegistryCredentialRequest {
  /** Registry as `host[:port]`; `docker.io` is Docker Hub. */
  readonly host: string
  /** User name at the registry. */
  readonly username: string
  /** Password or, better, a token that may only read; never shown again. */
  readonly password: string
}

/** Port of a TCP service in the VM, and how clients reach it. */
export interface PutTcpServiceRequest {
  /** TCP port that the program listens on in the VM. */
  readonly port: number
  /** As in the answer. Without it, that of the service, or `none`. */
  readonly tls?: 'none' | 'sni' | null | undefined
}

/** A tenant that is attached to a storage node. */
export interface ReAttachedTenant {
  /** Tenant, 32 hexadecimal digits. */
  readonly id: string
  /** Generation of the tenant. */
  readonly gen: number
  /** `AttachedSingle`. */
  readonly mode?: string | undefined
  /** Pages per stripe, for tenants with shards. */
  readonly stripe_size?: number | undefined
}

export interface ReAttachRequest {
  /** Number of the storage node. Default: 1. */
  readonly node_id?: number | undefined
}

export interface ReAttachResponse {
  /** The tenants that are attached to the node now. */
  readonly tenants: readonly ReAttachedTenant[]
}

/** Page to send a browser to. */
export interface Redirect {
  /** Page to open in a browser. Anyone who has the address can open it. */
  readonly url: string
}

/** Refresh token of a session. */
export interface RefreshRequest {
  /** Refresh token of the session, from the last sign-in or refresh. */
  readonly refresh_token: string
}

/** New tokens of a session. */
export interface RefreshResponse {
  /** New session JWT. The previous one stays valid until it expires. */
  readonly token: string
  /** Replaces the refresh token of the request, which does not work any more. */
  readonly refresh_token: string
}

/** New account, and the answer to a captcha. */
export interface RegisterRequest {
  /** What the picture shows, or the answer to the question in words. Case does not matter. */
  readonly captcha_answer: string
  /** From the captcha that `captcha_answer` answers. */
  readonly captcha_id: string
  /** Proof of work. Required if the captcha has `captcha_work`, which says how to compute it. */
  readonly captcha_proof?: string | null | undefined
  /** Address to sign in with. Stored in lower case; each address has one account. */
  readonly email: string
  /** Password to sign in with: 8 to 128 characters, neither a commonly used password nor the e-mail address. */
  readonly password: string
  /** Given name, shown to other project members. */
  readonly first_name?: string | null | undefined
  /** Family name, shown to other project members. */
  readonly last_name?: string | null | undefined
}

/** User of a project at an image registry, without the password. */
export interface RegistryCredential {
  /** Registry that the credential is sent to, as `host[:port]`; no other. Docker Hub is `docker.io`. */
  readonly host: string
  /** User name at the registry. */
  readonly username: string
  /** When the credential was last set. */
  readonly updated_at: string
}

/** Token for the registry of the installation. */
export interface RegistryToken {
  /** JWT for the registry. */
  readonly token: string
  /** The same token, as OAuth 2.0 names it. */
  readonly access_token: string
  /** Lifetime in seconds. */
  readonly expires_in: number
  /** When it was issued. */
  readonly issued_at: string
}

/** A host that cannot take the VM. */
export interface RejectedHost {
  /** Id of the host. */
  readonly host_id: string
  /** Why it cannot take a VM. */
  readonly reason: string
}

/** Repository on GitHub that the project can build from. */
export interface Repository {
  /** Number that GitHub gives the repository. It survives renames. */
  readonly id: number
  /** Owner and name. */
  readonly full_name: string
  /** Whether the repository is hidden from the public. */
  readonly private: boolean
  /** Branch that is built for an app that names no branch. */
  readonly default_branch: string
  /** https address to clone from, without credentials: the `git_url` of an app. */
  readonly clone_url: string
  /** Page of the repository for a browser. */
  readonly html_url: string
  /** Number that GitHub gives the installation of its app on an account. */
  readonly installation_id: number
}

/** Secret of a mailed link, and the new password. */
export interface ResetPasswordRequest {
  /** Secret of a mailed link: the part behind the `#`. It works once. */
  readonly token: string
  /** Password to sign in with: 8 to 128 characters, neither a commonly used password nor the e-mail address. */
  readonly new_password: string
}

export interface RestoreDatabaseRequest {
  /** The snapshot to restore from. */
  readonly snapshot_name: string
}

export interface RestoreDatabaseToRequest {
  /** The instant (RFC 3339) to restore to, after the first full backup. */
  readonly at: string
}

export interface RestoreVolumeRequest {
  /** Name of a snapshot of this volume. */
  readonly snapshot_name: string
}

/** A command that runs once in a separate VM. */
export interface Run {
  /** Identifies the run. */
  readonly id: string
  /** The deployment whose image and environment it has. */
  readonly job_id: string
  /** `release`: the release command of the deployment. `job`: a time of a schedule. */
  readonly purpose: 'command' | 'release' | 'job'
  /** The job that it belongs to; null otherwise. */
  readonly job_name: string | null
  /** The time of the schedule; null if it was started by hand. */
  readonly due_at: string | null
  /** 1, or more for the repetition of a failed run of a job. */
  readonly attempt: number
  /** The program and its arguments; null if the VM waits for sessions. */
  readonly command: readonly string[] | null
  /** `lost`: its host was lost. A run that is not started again fails once. */
  readonly status: 'pending' | 'starting' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost'
  /** Exit code of the program; null unless it exited. */
  readonly exit_code: number | null
  /** Why it failed, with the last lines of its output; null otherwise. */
  readonly error: string | null
  /** Its VM; null once it is removed. */
  readonly vm_id: string | null
  /** Seconds after which the run is ended. */
  readonly timeout_seconds: number
  /** The account that started it; null for release commands. */
  readonly started_by: string | null
  /** When it was requested. */
  readonly created_at: string
  /** When its program started; null before. */
  readonly started_at: string | null
  /** When its VM was gone; null before. */
  readonly ended_at: string | null
}

/** Output of a run. */
export interface RunLog {
  /** The last lines of output, at most 64 KiB. */
  readonly text: string
}

/** A volume that is being attached to the VMs of a deployment. */
export interface RuntimeVolumeAttached {
  /** The hosts attach it now. */
  readonly status: 'attaching'
  /** The volume. */
  readonly volume_id: string
  /** Directory in the VM where the volume is mounted. */
  readonly mount_point: string
  /** Whether the VM may only read it. */
  readonly read_only: boolean
}

/** A volume that is being detached from the VMs of a deployment. */
export interface RuntimeVolumeDetached {
  /** `detaching` while a VM still uses the volume. */
  readonly status: 'detached' | 'detaching'
  /** What happens in the VM meanwhile; null when no VM uses the volume. */
  readonly message: string | null
  /** The volume. */
  readonly volume_id: string
  /** Directory in the VM where the volume is mounted. */
  readonly mount_point: string
}

export interface ScaleAppRequest {
  /** Whether the number of VMs follows their load. */
  readonly autoscaling_enabled?: boolean | null | undefined
  /** How many VMs should run. */
  readonly desired_replicas?: number | null | undefined
  /** How many VMs run at most. */
  readonly max_replicas?: number | null | undefined
  /** How many VMs run at least; 0 allows scale to zero. */
  readonly min_replicas?: number | null | undefined
  /** Percent of CPU above which autoscaling adds a VM. */
  readonly cpu_threshold?: number | null | undefined
  /** Percent of memory above which autoscaling adds a VM. */
  readonly mem_threshold?: number | null | undefined
}

/** An app with its new scale. */
export interface ScaledApp {
  /** Id of the app. */
  readonly id: string
  /** Name of the app; unique in the project, and part of its host name. */
  readonly name: string
  /** Repository of the source; empty when the app is deployed from images or uploads. */
  readonly git_url: string
  /** Branch for pushes and builds; empty for the default branch. */
  readonly git_branch: string
  /** Whether submodules on the same host are fetched for builds. */
  readonly git_submodules: boolean
  /** Port that the program in the VM listens on. */
  readonly port: number
  /** `worker`: gets no requests, so it has no host name, is healthy once its program has run for two seconds, and never sleeps. */
  readonly kind: 'web' | 'worker'
  /** App whose environment its deployments get; null for its own. */
  readonly env_of: string | null
  /** Program and arguments that replace those of the image; empty: those of the image. */
  readonly command: readonly string[]
  /** Arguments that replace those of the image, whose entrypoint stays; empty: those of the image. */
  readonly arguments: readonly string[]
  /** Stack of the app, as `mote compose` names it; null for an app outside of stacks. */
  readonly stack: string | null
  /** Path that must answer 2xx or 3xx before a deployment serves. */
  readonly health_check_path: string
  /** Runs once in a separate VM before a new version serves; null: nothing. */
  readonly release_command: readonly string[] | null
  /** Seconds that old VMs may take to finish their requests. */
  readonly drain_timeout: number
  readonly canary: AppCanary | null
  /** `rolling`: the VMs of a new version start beside the old ones. `one-at-a-time`: an old VM ends before a new one starts, so never more VMs run than declared. */
  readonly strategy: 'rolling' | 'one-at-a-time'
  readonly hosts: AppHosts
  readonly restart: AppRestart
  readonly build: AppBuild
  /** How many VMs should run; autoscaling changes it. */
  readonly desired_replicas: number
  /** How many VMs run at least; 0 allows scale to zero. */
  readonly min_replicas: number
  /** How many VMs run at most. */
  readonly max_replicas: number
  /** Whether the number of VMs follows their load. */
  readonly autoscaling_enabled: boolean
  /** Percent of CPU, 0 to 100, above which a VM is added. */
  readonly cpu_threshold: number
  /** Percent of memory, 0 to 100, above which a VM is added. */
  readonly mem_threshold: number
  readonly scale_state: AppScaleState
  /** When it was created. */
  readonly created_at: string
  /** When a setting that takes effect with the next deployment was last changed; null if never since the app was created. */
  readonly settings_changed_at: string | null
  /** The active deployment; null if none. */
  readonly active_deployment_id?: string | null | undefined
  /** Why its newest deployment failed, at most 1000 characters; null if that did not fail, or if a deployment is active. */
  readonly failure: string | null
  /** Host name that the gateway serves the app on; null for a worker. */
  readonly hostname?: string | null | undefined
  /** Address of the app, with the scheme and port of the gateway; null for a worker. */
  readonly url?: string | null | undefined
  /** Installation of the git integration that reads the repository; null if none. */
  readonly scm_installation_id?: number | null | undefined
  /** The repository as the git host names it; null if none is connected. */
  readonly scm_repo_full_name?: string | null | undefined
  /** Id of the repository at the git host; null if none is connected. */
  readonly scm_repo_id?: number | null | undefined
  /** Always null; read it with `GET /v1/apps/{app_name}/secret`. */
  readonly scm_webhook_secret?: string | null | undefined
  /** Replicas that wait for room on the hosts; null if none do. */
  readonly message: string | null
}

/** GitHub account on which the integration is installed. */
export interface ScmAccount {
  /** Number that GitHub gives the installation of its app on an account. */
  readonly installation_id: number
  /** Name of the account on GitHub. */
  readonly login: string
  /** Kind of account on GitHub: `User` or `Organization`. */
  readonly type: string
  /** Picture of the account; null if GitHub gave none. */
  readonly avatar_url: string | null
}

/** Result of confirming an installation. */
export interface ScmConfirmed {
  /** The installation is bound to the project. */
  readonly status: 'installed'
}

/** Webhook delivery of a Git host, and what it did for an app. */
export interface ScmDelivery {
  /** Id that the Git host gave the delivery; a hash of the request if it gave none. */
  readonly id: string
  /** Kind of event, in the words of the Git host. */
  readonly event: string
  /** `applied`: the app was changed or a deployment was started. `ignored`: the event does not concern the app or is outdated. `refused`: the plan or the state of the app does not allow it. */
  readonly status: 'applied' | 'ignored' | 'refused'
  /** Why the delivery was ignored or refused; empty if it was applied. */
  readonly reason: string
  /** Branch of a push or pull request; empty for other events. */
  readonly branch: string
  /** Full hash of the newest commit of a push or pull request; empty for other events. */
  readonly commit_hash: string
  /** When the delivery arrived here. */
  readonly received_at: string
}

/** What an event of a Git host did. */
export interface ScmEventEffect {
  /** `applied`: a deployment was started, or what is known of the repository was updated. `ignored`: outdated, or about no app. `refused`: the plan or the state of the app does not allow it. `duplicate`: received before. `pong`: answer to a test event. */
  readonly status: 'applied' | 'ignored' | 'refused' | 'duplicate' | 'pong'
}

export interface ScmInstallation {
  /** Page of the git host that asks for the permission; open it in a browser. */
  readonly url: string
}

/** Result of installing the GitHub integration. */
export interface ScmInstalled {
  /** `installed`: the installation is bound to the project. `confirm`: nothing is bound yet; the program that began needs `confirmation`. */
  readonly status: 'installed' | 'confirm'
  /** To be sent to `POST /v1/scm/install/confirm` by the user who began, within 10 minutes. It works once. Only with `confirm`. */
  readonly confirmation?: string | undefined
  /** Tells the person in the browser what to do next. Only with `confirm`. */
  readonly message?: string | undefined
}

/** Rule that allows or denies packets to or from the VMs of an app. */
export interface SecurityRule {
  /** Identifies the rule when it is deleted. */
  readonly id: string
  /** App whose VMs the rule is for. */
  readonly app_id: string
  /** `tcp`, `udp`, `icmp` or `any`. With a range of ports, `any` means TCP and UDP. */
  readonly protocol: string
  /** First destination port; 0 together with `port_end` 0 or 65535 means every port. */
  readonly port_start: number
  /** Last destination port, inclusive. */
  readonly port_end: number
  /** `allow` or `deny`: what happens to matching packets. */
  readonly action: string
  /** Position among the rules of the app: lower ones are tried first, the first that matches decides. */
  readonly priority: number
  /** `inbound`: packets to the VMs. `outbound`: packets from the VMs. Replies always pass. */
  readonly direction: string
  /** Network of the other side, IPv4 or IPv6; null for every address. */
  readonly cidr: string | null
  /** Whether the current rules are in force for every VM of the app. False while it has none. */
  readonly enforced: boolean
  /** Why the rule is not, or not yet, enforced; null if it is. */
  readonly reason: string | null
  /** When the rule was created. */
  readonly created_at: string
  /** Same as `created_at`: rules are replaced, not changed. */
  readonly updated_at: string
}

/** A network rule of an app was created or deleted. Hosts enforce the new version a moment later. */
export interface SecurityRuleEvent {
  /** When it happened. */
  readonly at: string
  /** The app that it happened to; null: no app. */
  readonly app_id: string | null
  /** The deployment that it happened to; null: no deployment. */
  readonly deployment_id: string | null
  /** The rule. */
  readonly rule_id: string
  /** The app that the rule applies to. */
  readonly app_name: string
  /** Version of the rules of the app; grows with each change. */
  readonly version: number
}

/** Sign-in of an account that has not ended. */
export interface Session {
  /** Identifies the session when it is revoked. */
  readonly id: string
  /** Address of the client that signed in; null if unknown. */
  readonly ip_address: string | null
  /** `User-Agent` header of the sign-in, at most 500 characters; null if there was none. */
  readonly user_agent: string | null
  /** When the user signed in. */
  readonly created_at: string
  /** Whether this request was made with this session. */
  readonly current: boolean
}

export interface SetAppEnvGroupsRequest {
  /** Names of groups; of equal variables, those of later groups win. */
  readonly groups: readonly string[]
}

export interface SetBalloonRequest {
  /** MiB that the VM should have, from `floor_mib` to `memory_mib`. */
  readonly target_memory_mib: number
}

/** New monthly budget. */
export interface SetBudgetRequest {
  /** Limit in cents; null for no limit. */
  readonly monthly_cents: number | null
}

/** Signal for a program. */
export interface SignalVmSessionRequest {
  /** Name of the signal, without SIG. */
  readonly signal: 'HUP' | 'INT' | 'QUIT' | 'KILL' | 'USR1' | 'USR2' | 'TERM' | 'CONT' | 'STOP' | 'TSTP' | 'WINCH'
}

/** The server closes the stream here. Connect again to resume after the last event. */
export interface SlowReaderGap {
  /** The client reads more slowly than events arrive. */
  readonly reason: 'slow_reader'
  /** When the stream was closed. */
  readonly at: string
}

/** Public key for SSH: tunnels to databases, and shells in VMs. */
export interface SshKey {
  /** Identifies the key when it is removed. */
  readonly id: string
  /** Label chosen by its owner. */
  readonly name: string
  /** SHA-256 fingerprint, as `ssh-keygen -l` prints it. */
  readonly fingerprint: string
  /** When the key was added. */
  readonly created_at: string
  /** When the key was last used for a login; null if never. */
  readonly last_used_at: string | null
}

/** A run of a job that was started by hand. */
export interface StartedJob {
  /** The run, as in `GET /v1/apps/{app_name}/runs/{run_id}`. */
  readonly run_id: string
}

export interface StartMigrationRequest {
  /** Id or name of the host to move to. */
  readonly target_host: string
  /** Address of the target host; empty to use the address that the host reports. */
  readonly target_uri: string
}

/** A command to run once in a separate VM. */
export interface StartRunRequest {
  /** The program and its arguments, without a shell, instead of the command of the image. Without it the VM waits for sessions, and ends when it has had none for two minutes. */
  readonly command?: readonly string[] | null | undefined
  /** Deployment whose image and environment are used. Default: the active one. */
  readonly job_id?: string | null | undefined
  /** Virtual CPUs. Default: of the deployment. */
  readonly vcpus?: 1 | 2 | 3 | 4 | null | undefined
  /** MiB of memory. Default: of the deployment. */
  readonly memory_mib?: 512 | 1024 | 2048 | 4096 | null | undefined
  /** Seconds after which the run is ended. Default: 3600. */
  readonly timeout_seconds?: number | null | undefined
}

/** Way for TCP connections from outside to a port of an app. */
export interface TcpService {
  /** Name of the service; unique in its app. */
  readonly name: string
  /** TCP port that the program listens on in the VM. */
  readonly port: number
  /** How clients reach the service: `none` gives it a port of its own, and bytes are forwarded unchanged. `sni` uses the shared port of the installation: clients connect with TLS, the server name (a hostname of the app) selects the service, and the gateway decrypts with its certificate of that name. */
  readonly tls: 'none' | 'sni'
  /** Port on every gateway. That of a service without TLS stays as long as the service. Null if the installation has no port for services with TLS any more. */
  readonly public_port: number | null
  /** Where clients connect: hostname of the app and public port. With `sni`, verified domains of the app work as well. */
  readonly address: string
  /** When the service was created. */
  readonly created_at: string
}

/** A tenant and its generation on a storage node. */
export interface TenantGeneration {
  /** Tenant, 32 hexadecimal digits. */
  readonly id: string
  /** Generation of the tenant. */
  readonly gen: number
}

/** Whether a storage node still owns a tenant. */
export interface TenantValidity {
  /** Tenant, 32 hexadecimal digits. */
  readonly id: string
  /** Whether the generation is current: only then may the node delete files. */
  readonly valid: boolean
}

/** Size of a terminal in characters. */
export interface TerminalSize {
  /** Lines of the terminal. */
  readonly rows: number
  /** Characters in one line. */
  readonly columns: number
}

/** Secret for an authenticator app, in three forms. */
export interface TotpSetup {
  /** Secret to type into an authenticator app: Base32 without padding. */
  readonly secret: string
  /** Link that opens an authenticator app. It contains the secret. */
  readonly otpauth_url: string
  /** Data URL of a PNG with `otpauth_url` as a QR code. */
  readonly qr_code: string
}

/** Result of turning on two-factor authentication. */
export interface TotpVerified {
  /** Always true: signing in now asks for a code. */
  readonly totp_enabled: boolean
  /** Ten codes that each replace a code of the authenticator app once. They are never shown again. */
  readonly recovery_codes: readonly string[]
}

/** A password for the SSH bastion. */
export interface TunnelPassword {
  /** User name of the SSH login. */
  readonly ssh_user: string
  /** Valid for one login within a minute, to this database only. */
  readonly password: string
  /** When the password expires. */
  readonly expires_at: string
}

export interface TunnelPasswordRequest {
  /** The branch to connect to. Default: the current one. */
  readonly branch?: string | null | undefined
}

export interface UpdateAppRequest {
  /** Port that the program in the VM listens on; it is also passed as `$PORT`. */
  readonly port: number
  /** Repository of the source; empty for none. */
  readonly git_url?: string | null | undefined
  /** Branch for pushes and builds; empty for the default branch of the repository. */
  readonly git_branch?: string | null | undefined
  /** Whether submodules on the same host are fetched for builds. */
  readonly git_submodules?: boolean | null | undefined
  /** Seconds that old VMs may take to finish their requests. */
  readonly drain_timeout?: number | null | undefined
  readonly canary?: AppCanaryRequest | null | undefined
  /** `rolling`: the VMs of a new version start beside the old ones. `one-at-a-time`: an old VM ends before a new one starts, so never more VMs run than declared. */
  readonly strategy?: 'rolling' | 'one-at-a-time' | null | undefined
  readonly hosts?: AppHostsRequest | null | undefined
  readonly restart?: AppRestartRequest | null | undefined
  readonly build?: AppBuildRequest | null | undefined
  /** Path that must answer 2xx or 3xx before a deployment serves. */
  readonly health_check_path?: string | null | undefined
  /** Program with arguments, without a shell, that runs once in a separate VM with a new image before it serves. If it fails, the old version keeps serving. An empty list removes it. */
  readonly release_command?: readonly string[] | null | undefined
  /** Installation of the git integration that reads the repository, from `GET /v1/scm/installations`. */
  readonly scm_installation_id?: number | null | undefined
  /** The repository as the git host names it. */
  readonly scm_repo_full_name?: string | null | undefined
  /** Id of the repository at the git host. */
  readonly scm_repo_id?: number | null | undefined
  /** Program and arguments that replace those of the image; empty: those of the image. No shell is involved. */
  readonly command?: readonly string[] | null | undefined
  /** Arguments that replace those of the image, whose entrypoint stays; empty: those of the image. Ignored with `command`. */
  readonly arguments?: readonly string[] | null | undefined
}

export interface UpdateDatabaseRequest {
  /** Virtual CPUs of its VM. */
  readonly vcpus?: number | null | undefined
  /** Memory of its VM in MiB. */
  readonly memory_mib?: number | null | undefined
  /** Disk for the data in MiB, at least the current size. It grows while the database runs. */
  readonly disk_mib?: number | null | undefined
  /** All settings: settings that are left out are reset to their defaults. */
  readonly settings?: Readonly<Record<string, string>> | null | undefined
  /** True: the VMs stop and the disks stay; false: the VMs start again. */
  readonly suspended?: boolean | null | undefined
}

/** New role of a member. */
export interface UpdateMemberRequest {
  /** `owner` may do everything, `admin` also renames the project and manages members and viewers, `member` works with its resources, `viewer` only reads. */
  readonly role: 'owner' | 'admin' | 'member' | 'viewer'
}

/** Changes of a profile. Absent and null members keep their value. */
export interface UpdateMeRequest {
  /** Whether to send important notifications by e-mail, too. Security notifications always are. */
  readonly email_notifications?: boolean | null | undefined
  /** Given name; empty to clear it. */
  readonly first_name?: string | null | undefined
  /** Family name; empty to clear it. */
  readonly last_name?: string | null | undefined
  /** Whether to send product announcements by e-mail, too. */
  readonly marketing_emails?: boolean | null | undefined
  /** https URL of a profile picture, without a user name or password; empty to remove it. */
  readonly avatar_url?: string | null | undefined
}

/** New name of a project. */
export interface UpdateProjectRequest {
  /** New display name. */
  readonly name: string
}

export interface UpdateVolumeRequest {
  /** New size in MiB, at least the current size: a volume never shrinks. */
  readonly size_mib: number
}

/** What a project used in a month, its cost, and its budget. */
export interface Usage {
  /** Month in UTC that the numbers are about, as `YYYY-MM`. */
  readonly month: string
  /** vCPUs of the VMs of the project, multiplied by the seconds they existed. Sleeping apps have no VM. */
  readonly vcpu_seconds: number
  /** Memory of the VMs of the project in MiB, multiplied by the seconds they existed. */
  readonly memory_mib_seconds: number
  /** Size of the volumes over time: 1 is a volume of 10^9 bytes that existed for 30 days. */
  readonly storage_gb_months: number
  /** Bytes that the VMs of the project sent. */
  readonly egress_bytes: number
  /** Cost so far in cents, at the prices of the installation, with fractions. 0 where nothing has a price. */
  readonly cost_cents: number
  /** Cost of the whole month in cents, if the rest of it is like the part so far. */
  readonly estimate_cents: number
  /** Monthly limit of the project in cents; null for no limit. */
  readonly budget_cents: number | null
  /** Where the current month stands: `none` (no budget), `fine`, `warned` (80 % used), `grace` (used up; apps go on for a time that the installation sets) or `capped` (apps sleep and deploys are refused until the budget is raised or the month ends). */
  readonly budget_state: 'none' | 'fine' | 'warned' | 'grace' | 'capped'
  /** When `budget_state` last changed or the month began; null without a budget. */
  readonly budget_changed_at: string | null
}

/** An account, as its owner sees it. */
export interface User {
  /** UUID of the account. Other resources refer to it as `user_id`. */
  readonly id: string
  /** Address to sign in with, in lower case. Notifications are mailed to it. */
  readonly email: string
  /** Given name; null if never set. */
  readonly first_name: string | null
  /** Family name; null if never set. */
  readonly last_name: string | null
  /** https URL of a profile picture; null if there is none. */
  readonly avatar_url: string | null
  /** Whether important notifications, such as failed deployments, are also sent by e-mail. Security notifications always are. */
  readonly email_notifications: boolean
  /** Whether product announcements are also sent by e-mail. */
  readonly marketing_emails: boolean
  /** `Admin` may operate the installation. Independent of the roles in projects. */
  readonly role: 'Admin' | 'User'
  /** Whether signing in asks for a code of the second factor. */
  readonly totp_enabled: boolean
  /** Whether a link that was mailed to the address has been opened. */
  readonly email_verified?: boolean | undefined
  /** IPv6 prefix of the private network of the default project; null without a default project. */
  readonly vpc_ipv6_prefix: string | null
}

export interface ValidateRequest {
  /** The tenants attached to the storage node. */
  readonly tenants: readonly TenantGeneration[]
}

export interface ValidateResponse {
  /** The requested tenants. */
  readonly tenants: readonly TenantValidity[]
}

/** What the mailed link was for. */
export interface VerifiedEmail {
  /** `verified`: the address of the account is verified. `changed`: the account now has the new address. */
  readonly status: 'verified' | 'changed'
}

/** Secret of a link that was mailed to the address. */
export interface VerifyEmailRequest {
  /** Secret of a mailed link: the part behind the `#`. It works once. */
  readonly token: string
}

/** First code of an authenticator app, and proof that the owner of the account asks. */
export interface VerifyTotpRequest {
  /** Six digits that the authenticator app shows now. */
  readonly code: string
  /** Password of the account. Not needed in a session that began within 10 minutes. */
  readonly password?: string | null | undefined
}

/** A file, a directory or a link in a VM. */
export interface VmFile {
  /** Last part of the path. */
  readonly name: string
  /** Path in the VM. Bytes that are not UTF-8 are replaced by U+FFFD; use `encoded_path` then. */
  readonly path: string
  /** The path with percent-encoded bytes. */
  readonly encoded_path: string
  /** `other`: a device, a socket or a pipe, which cannot be read. */
  readonly type: 'file' | 'directory' | 'symlink' | 'other'
  /** Permissions in octal. */
  readonly mode: string
  /** Size in bytes. */
  readonly size_bytes: number
  /** When the content was last changed, to the second. */
  readonly modified_at: string
  /** Where a symbolic link leads; null for anything else. */
  readonly target: string | null
  /** What a symbolic link leads to; null if it leads nowhere, and for anything else. */
  readonly target_type: 'file' | 'directory' | 'symlink' | 'other' | null
}

/** Content of a directory in a VM. */
export interface VmFileList {
  /** The VM whose files these are. */
  readonly vm_id: string
  /** The directory. */
  readonly path: string
  /** In the order of their paths. */
  readonly entries: readonly VmFile[]
  /** Whether these are all entries. At most 2,000 and 1 MiB are listed; which ones, depends on the file system. */
  readonly complete: boolean
}

/** An app that resumes from a snapshot. */
export interface VmFork {
  /** The new app. */
  readonly app_name: string
  /** Its deployment. */
  readonly deployment_id: string
  /** The same deployment, as paths name it. */
  readonly job_id: string
  /** Its VMs, one for each replica. */
  readonly vm_ids: readonly string[]
  /** Status of the deployment. */
  readonly status: string
  /** Its volumes, with the content that they had in the snapshot. */
  readonly volumes: readonly VmForkVolume[]
}

/** A volume of the new app. */
export interface VmForkVolume {
  /** The new volume. */
  readonly volume_id: string
  /** Its name. */
  readonly name: string
  /** The volume that it was cloned from. */
  readonly of: string
  /** Directory in the VM where the volume is mounted. */
  readonly mount_point: string
  /** Whether the VM may only read it. */
  readonly read_only: boolean
}

/** A process in a VM. */
export interface VmProcess {
  /** Process id in the VM. */
  readonly pid: number
  /** Process id of its parent. */
  readonly parent_pid: number
  /** Number of its user. */
  readonly user_id: number
  /** As in proc(5): R runs, S waits, D waits for a disk, Z has ended, T is stopped. */
  readonly state: string
  /** CPU time since its start in milliseconds. */
  readonly cpu_ms: number
  /** Memory that it has in RAM, in KiB. */
  readonly memory_kib: number
  /** The program with its arguments, at most 512 bytes. */
  readonly command: string
}

/** The processes of a VM. */
export interface VmProcessList {
  /** The VM. */
  readonly vm_id: string
  /** At most 2,000 processes, in the order of the kernel. */
  readonly processes: readonly VmProcess[]
}

/** A program that runs in a VM beside the app. */
export interface VmSession {
  /** Identifies the session. */
  readonly id: string
  /** The VM in which the program runs. */
  readonly vm_id: string
  /** The program without its arguments, or `tcp:` and the port, or `file:` with the action and path. */
  readonly program: string
  /** Whether it runs in a terminal. */
  readonly tty: boolean
  /** `exited`: with an exit code. `signaled`: ended by a signal. `lost`: the VM ended first. */
  readonly status: 'running' | 'exited' | 'signaled' | 'lost'
  /** Exit code of the program; null unless it exited. */
  readonly exit_code: number | null
  /** Number of the signal that ended it; null otherwise. */
  readonly signal: number | null
  /** The account that started the program. */
  readonly opened_by: string
  /** When the program was started. */
  readonly opened_at: string
  /** When a client was last attached, to about a minute. */
  readonly seen_at: string
  /** When it ended; null while it runs. */
  readonly ended_at: string | null
  /** Seconds without a client after which the program is ended; null: never. */
  readonly idle_timeout_seconds: number | null
}

/** Memory and disks of a VM at one point in time, under a name. */
export interface VmSnapshot {
  /** Name of the snapshot; unique in its deployment. */
  readonly name: string
  /** `creating` until written; only `ready` snapshots can be restored or forked. */
  readonly status: 'creating' | 'ready' | 'failed'
  /** The VM that the snapshot was taken of. */
  readonly vm_id: string
  /** The host that stores the snapshot. */
  readonly host_id: string
  /** Bytes that the snapshot takes on its host; 0 until it is written. */
  readonly size_bytes: number
  /** Digest of its memory file, in hexadecimal; null until it is written. */
  readonly sha256: string | null
  /** Hypervisor and version that wrote the snapshot and can load it; null until it is written. */
  readonly made_by: string | null
  /** Milliseconds of the pause; null until the snapshot is written. */
  readonly pause_ms: number | null
  /** Why the snapshot failed; null if it did not fail. */
  readonly error: string | null
  /** Volumes that were attached to the VM; the snapshot includes their content. */
  readonly volumes: readonly VmSnapshotVolume[]
  /** When the snapshot was requested. */
  readonly created_at: string
}

/** A restore that has started. */
export interface VmSnapshotRestored {
  /** The host restores the VM now. */
  readonly status: 'restoring'
  /** Name of the snapshot; unique in its deployment. */
  readonly snapshot_name: string
  /** The VM that is restored. */
  readonly vm_id: string
}

/** A volume that was attached to the VM when the snapshot was taken. */
export interface VmSnapshotVolume {
  /** The volume. */
  readonly volume_id: string
  /** Directory in the VM where the volume is mounted. */
  readonly mount_point: string
  /** Whether the VM may only read it. */
  readonly read_only: boolean
}

/** Space of the file system that has a path. */
export interface VmSpace {
  /** Size of the file system. */
  readonly size_bytes: number
  /** Free space. */
  readonly free_bytes: number
  /** Free space that the user can use. */
  readonly available_bytes: number
}

/** A disk that outlives the VMs it is attached to. */
export interface Volume {
  /** Id of the volume, used in paths. */
  readonly id: string
  /** The project that owns the volume. */
  readonly tenant_id: string
  /** Name of the volume; unique in the project. */
  readonly name: string
  /** Size in MiB, as programs in the VM see it. */
  readonly size_mib: number
  /** Kind of storage pool that stores the volume; empty for the default one of its host. */
  readonly pool_name: string
  /** When it was created. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
  /** `pending` (placed when first used), `creating`, `ready`, `growing`, `restoring`, `moving`, `failed`; for a volume attached to an app: `waiting` (for the next start of a VM), `attaching`, `attached`, `detaching`. */
  readonly status?: string | undefined
  /** The last error; null if there was none. */
  readonly message?: string | null | undefined
}

/** An app that a volume is attached to. */
export interface VolumeAttachment {
  /** 0: read-write, for one VM at a time; 1: read-only, for any number of VMs. */
  readonly access_mode: number
  /** Id of the app. */
  readonly app_id: string
  /** Name of the app. */
  readonly app_name: string
  /** Directory in the VM where the volume is mounted. */
  readonly mount_point: string
}

/** The newest move of a volume to another host, and whether the volume can be moved now. */
export interface VolumeMoveStatus {
  /** `completed`, `cancelled` and `failed` are final; `none`: the volume has never moved; all others: the move is in progress. */
  readonly status: 'preparing' | 'copying' | 'copied' | 'complete' | 'clearing' | 'cancelling' | 'dropping' | 'completed' | 'cancelled' | 'failed' | 'none'
  /** Id of the move. With `none`, this and the other fields of the move are absent. */
  readonly move_id?: string | undefined
  /** Id of the host that the volume leaves. */
  readonly source_host?: string | undefined
  /** Id of the host that the volume moves to. */
  readonly target_host?: string | undefined
  /** Copied share, 0 to 100. */
  readonly percent?: number | undefined
  /** Bytes copied so far. */
  readonly transferred_bytes?: number | undefined
  /** Bytes to copy; 0 while unknown. */
  readonly total_bytes?: number | undefined
  /** Why the move failed; null if it did not fail. */
  readonly error?: string | null | undefined
  /** When the move was requested. */
  readonly started_at?: string | undefined
  /** When it ended; null while it runs. */
  readonly ended_at?: string | null | undefined
  /** The host that stores the volume now; null if it has none yet. */
  readonly host_id: string | null
  /** Why the volume cannot be moved now; null if it can. */
  readonly obstacle: string | null
}

/** Schedule of automatic snapshots of a volume. */
export interface VolumeSchedule {
  /** Minutes from one snapshot to the next, 15 to 527040; 0: none are taken. */
  readonly every_minutes: number
  /** How many scheduled snapshots are retained, 1 to 100; older ones are deleted. */
  readonly keep: number
}

/** The content of a volume at one point in time, under a name. */
export interface VolumeSnapshot {
  /** Id of the snapshot, used in paths. */
  readonly id: string
  /** The project that owns the volume. */
  readonly tenant_id: string
  /** The volume that the snapshot was taken of. */
  readonly volume_id: string
  /** Name of the snapshot; unique for its volume. */
  readonly name: string
  /** When the snapshot was requested. */
  readonly created_at: string
  /** `creating`, `ready` or `failed`; only `ready` snapshots can be used. */
  readonly status?: string | undefined
  /** Bytes that the snapshot takes beside its volume; 0 until it is taken. */
  readonly size_bytes?: number | undefined
  /** Milliseconds for which the VM with the volume was paused; null if no VM used it. */
  readonly pause_ms?: number | null | undefined
  /** Why the snapshot failed; null if it did not fail. */
  readonly error?: string | null | undefined
}

/** Usage of a volume, as its host last measured it. */
export interface VolumeUsage {
  /** Id of the volume. */
  readonly volume_id: string
  /** Size of the volume. */
  readonly size_bytes: number
  /** Bytes that the files in the volume take. */
  readonly used_bytes: number
  /** Bytes that its snapshots take beside the volume. */
  readonly snapshot_bytes: number
  /** When its host measured it; null before the first measurement. */
  readonly measured_at: string | null
}

/** A volume and the apps that it is attached to. */
export interface VolumeWithAttachments {
  /** Id of the volume, used in paths. */
  readonly id: string
  /** The project that owns the volume. */
  readonly tenant_id: string
  /** Name of the volume; unique in the project. */
  readonly name: string
  /** Size in MiB, as programs in the VM see it. */
  readonly size_mib: number
  /** Kind of storage pool that stores the volume; empty for the default one of its host. */
  readonly pool_name: string
  /** When it was created. */
  readonly created_at: string
  /** When it last changed. */
  readonly updated_at: string
  /** `pending` (placed when first used), `creating`, `ready`, `growing`, `restoring`, `moving`, `failed`; for a volume attached to an app: `waiting` (for the next start of a VM), `attaching`, `attached`, `detaching`. */
  readonly status?: string | undefined
  /** The last error; null if there was none. */
  readonly message?: string | null | undefined
  /** The apps that the volume is attached to; empty if none. */
  readonly attachments: readonly VolumeAttachment[]
}

/** A file that was written. */
export interface WrittenVmFile {
  /** Path in the VM. */
  readonly path: string
  /** Bytes that were written. */
  readonly size_bytes: number
}

export const createOperations = (transport: Transport) => ({
  /** Get the health of the service. `GET /v1/health` */
  getHealth: (options?: CallOptions) => transport.json<Health>({ method: 'GET', path: `/v1/health`, open: true }, options),
  /** Check that the process runs. `GET /v1/health/live` */
  getLiveness: (options?: CallOptions) => transport.text({ method: 'GET', path: `/v1/health/live`, open: true }, options),
  /** Check that requests can be served. `GET /v1/health/ready` */
  getReadiness: (options?: CallOptions) => transport.json<Health>({ method: 'GET', path: `/v1/health/ready`, open: true }, options),
  /** Follow the health of the service. `GET /v1/health/stream` */
  streamHealth: (options?: StreamOptions) => transport.stream<{ 'snapshot': HealthEvent; 'health': HealthEvent; 'gap': SlowReaderGap }>({ method: 'GET', path: `/v1/health/stream`, open: true }, options),
  /** Get this contract. `GET /v1/api-docs/openapi.json` */
  getOpenApi: (options?: CallOptions) => transport.json<OpenApiDocument>({ method: 'GET', path: `/v1/api-docs/openapi.json`, open: true }, options),
  /** Get the schema of mote.toml. `GET /v1/api-docs/mote.schema.json` */
  getAppFileSchema: (options?: CallOptions) => transport.json<AppFileSchema>({ method: 'GET', path: `/v1/api-docs/mote.schema.json`, open: true }, options),
  /** Open the explorer of this contract. `GET /v1/docs` */
  getExplorer: (options?: CallOptions) => transport.text({ method: 'GET', path: `/v1/docs`, open: true }, options),
  /** Attach the tenants of a storage node. `POST /re-attach` */
  reAttach: (input: { readonly body?: ReAttachRequest | undefined } = {}, options?: CallOptions) => transport.json<ReAttachResponse>({ method: 'POST', path: `/re-attach`, body: input.body, open: true }, options),
  /** Check the generations of tenants. `POST /validate` */
  validateGenerations: (input: { readonly body: ValidateRequest }, options?: CallOptions) => transport.json<ValidateResponse>({ method: 'POST', path: `/validate`, body: input.body, open: true }, options),
  /** Receive a billing event. `POST /v1/webhooks/billing` */
  receiveBillingWebhook: (input: { readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.json<BillingEventEffect>({ method: 'POST', path: `/v1/webhooks/billing`, body: input.body, open: true }, options),
  /** Receive an event of a Git host for an app. `POST /v1/webhooks/scm/{app_name}` */
  receiveAppWebhook: (input: { readonly app_name: string; readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.json<ScmEventEffect>({ method: 'POST', path: `/v1/webhooks/scm/${encodeURIComponent(input.app_name)}`, body: input.body, open: true }, options),
  /** Receive an event of the GitHub App. `POST /v1/webhooks/scm` */
  receiveScmWebhook: (input: { readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.json<ScmEventEffect>({ method: 'POST', path: `/v1/webhooks/scm`, body: input.body, open: true }, options),
  /** Send a verification link. `POST /v1/auth/email/verification` */
  sendVerification: (options?: CallOptions) => transport.json<MailedLink>({ method: 'POST', path: `/v1/auth/email/verification` }, options),
  /** Verify an e-mail address. `POST /v1/auth/email/verify` */
  verifyEmail: (input: { readonly body: VerifyEmailRequest }, options?: CallOptions) => transport.json<VerifiedEmail>({ method: 'POST', path: `/v1/auth/email/verify`, body: input.body, open: true }, options),
  /** Change your e-mail address. `POST /v1/auth/email` */
  changeEmail: (input: { readonly body: ChangeEmailRequest }, options?: CallOptions) => transport.json<MailedLink>({ method: 'POST', path: `/v1/auth/email`, body: input.body }, options),
  /** Send a password reset link. `POST /v1/auth/password/forgot` */
  forgotPassword: (input: { readonly body: ForgotPasswordRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/auth/password/forgot`, body: input.body, open: true }, options),
  /** Reset a password. `POST /v1/auth/password/reset` */
  resetPassword: (input: { readonly body: ResetPasswordRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/auth/password/reset`, body: input.body, open: true }, options),
  /** Get a captcha. `GET /v1/auth/captcha` */
  getCaptcha: (input: { readonly query?: {
  /** `image`: six letters and digits to read in a picture. `text`: a question in words, which also requires a proof of work. */
  readonly format?: 'image' | 'text' | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<Captcha>({ method: 'GET', path: `/v1/auth/captcha`, query: input.query, open: true }, options),
  /** Create an account. `POST /v1/auth/register` */
  register: (input: { readonly body: RegisterRequest }, options?: CallOptions) => transport.json<User>({ method: 'POST', path: `/v1/auth/register`, body: input.body, open: true }, options),
  /** Sign in. `POST /v1/auth/login` */
  login: (input: { readonly body: LoginRequest }, options?: CallOptions) => transport.json<AuthResponse>({ method: 'POST', path: `/v1/auth/login`, body: input.body, open: true }, options),
  /** Refresh a session. `POST /v1/auth/refresh` */
  refreshSession: (input: { readonly body: RefreshRequest }, options?: CallOptions) => transport.json<RefreshResponse>({ method: 'POST', path: `/v1/auth/refresh`, body: input.body, open: true }, options),
  /** Sign out. `POST /v1/auth/logout` */
  logout: (input: { readonly body: RefreshRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/auth/logout`, body: input.body, open: true }, options),
  /** Get your account. `GET /v1/auth/me` */
  getMe: (options?: CallOptions) => transport.json<User>({ method: 'GET', path: `/v1/auth/me` }, options),
  /** Update your profile. `PUT /v1/auth/me` */
  updateMe: (input: { readonly body: UpdateMeRequest }, options?: CallOptions) => transport.json<User>({ method: 'PUT', path: `/v1/auth/me`, body: input.body }, options),
  /** Delete your account. `DELETE /v1/auth/me` */
  deleteMe: (input: { readonly body?: DeleteMeRequest | undefined } = {}, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/auth/me`, body: input.body }, options),
  /** Change your password. `POST /v1/auth/password` */
  changePassword: (input: { readonly body: ChangePasswordRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/auth/password`, body: input.body }, options),
  /** Set up two-factor authentication. `GET /v1/auth/2fa/setup` */
  setupTotp: (options?: CallOptions) => transport.json<TotpSetup>({ method: 'GET', path: `/v1/auth/2fa/setup` }, options),
  /** Set up two-factor authentication. `POST /v1/auth/2fa/setup` */
  setupTotpByPost: (options?: CallOptions) => transport.json<TotpSetup>({ method: 'POST', path: `/v1/auth/2fa/setup` }, options),
  /** Turn on two-factor authentication. `POST /v1/auth/2fa/verify` */
  verifyTotp: (input: { readonly body: VerifyTotpRequest }, options?: CallOptions) => transport.json<TotpVerified>({ method: 'POST', path: `/v1/auth/2fa/verify`, body: input.body }, options),
  /** Turn off two-factor authentication. `POST /v1/auth/2fa/disable` */
  disableTotp: (input: { readonly body?: DisableTotpRequest | undefined } = {}, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/auth/2fa/disable`, body: input.body }, options),
  /** List personal access tokens. `GET /v1/auth/tokens` */
  listTokens: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly PersonalAccessToken[]>({ method: 'GET', path: `/v1/auth/tokens`, query: input.query }, options),
  /** Create a personal access token. `POST /v1/auth/tokens` */
  createToken: (input: { readonly body: CreateTokenRequest }, options?: CallOptions) => transport.json<CreatedToken>({ method: 'POST', path: `/v1/auth/tokens`, body: input.body }, options),
  /** Get a personal access token. `GET /v1/auth/tokens/{token_id}` */
  getToken: (input: { readonly token_id: string }, options?: CallOptions) => transport.json<PersonalAccessToken>({ method: 'GET', path: `/v1/auth/tokens/${encodeURIComponent(input.token_id)}` }, options),
  /** Revoke a personal access token. `DELETE /v1/auth/tokens/{token_id}` */
  revokeToken: (input: { readonly token_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/auth/tokens/${encodeURIComponent(input.token_id)}` }, options),
  /** List sessions. `GET /v1/auth/sessions` */
  listSessions: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly Session[]>({ method: 'GET', path: `/v1/auth/sessions`, query: input.query }, options),
  /** Get a session. `GET /v1/auth/sessions/{session_id}` */
  getSession: (input: { readonly session_id: string }, options?: CallOptions) => transport.json<Session>({ method: 'GET', path: `/v1/auth/sessions/${encodeURIComponent(input.session_id)}` }, options),
  /** Revoke a session. `DELETE /v1/auth/sessions/{session_id}` */
  revokeSession: (input: { readonly session_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/auth/sessions/${encodeURIComponent(input.session_id)}` }, options),
  /** List SSH keys. `GET /v1/auth/ssh-keys` */
  listSshKeys: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly SshKey[]>({ method: 'GET', path: `/v1/auth/ssh-keys`, query: input.query }, options),
  /** Add an SSH key. `POST /v1/auth/ssh-keys` */
  addSshKey: (input: { readonly body: AddSshKeyRequest }, options?: CallOptions) => transport.json<SshKey>({ method: 'POST', path: `/v1/auth/ssh-keys`, body: input.body }, options),
  /** Get an SSH key. `GET /v1/auth/ssh-keys/{key_id}` */
  getSshKey: (input: { readonly key_id: string }, options?: CallOptions) => transport.json<SshKey>({ method: 'GET', path: `/v1/auth/ssh-keys/${encodeURIComponent(input.key_id)}` }, options),
  /** Remove an SSH key. `DELETE /v1/auth/ssh-keys/{key_id}` */
  removeSshKey: (input: { readonly key_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/auth/ssh-keys/${encodeURIComponent(input.key_id)}` }, options),
  /** List audit log entries. `GET /v1/audit-logs` */
  listAuditLogs: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only entries with exactly this action. */
  readonly action?: string | undefined
  /** Only entries about this kind of resource. */
  readonly resource_type?: string | undefined
  /** `project`: without sign-ins and other entries of your own account. Default: `all`. */
  readonly scope?: 'all' | 'project' | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<AuditLogList>({ method: 'GET', path: `/v1/audit-logs`, query: input.query }, options),
  /** List notifications. `GET /v1/notifications` */
  listNotifications: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only notifications that are not marked as read. */
  readonly unread_only?: boolean | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<NotificationList>({ method: 'GET', path: `/v1/notifications`, query: input.query }, options),
  /** Get a notification. `GET /v1/notifications/{notification_id}` */
  getNotification: (input: { readonly notification_id: string }, options?: CallOptions) => transport.json<Notification>({ method: 'GET', path: `/v1/notifications/${encodeURIComponent(input.notification_id)}` }, options),
  /** Mark a notification as read. `POST /v1/notifications/{notification_id}/read` */
  markNotificationRead: (input: { readonly notification_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/notifications/${encodeURIComponent(input.notification_id)}/read` }, options),
  /** Send an announcement. `POST /v1/admin/announcements` */
  createAnnouncement: (input: { readonly body: CreateAnnouncementRequest }, options?: CallOptions) => transport.json<Announcement>({ method: 'POST', path: `/v1/admin/announcements`, body: input.body }, options),
  /** Mark all notifications as read. `POST /v1/notifications/read-all` */
  markAllNotificationsRead: (options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/notifications/read-all` }, options),
  /** Get the billing summary. `GET /v1/billing` */
  getBilling: (options?: CallOptions) => transport.json<BillingSummary>({ method: 'GET', path: `/v1/billing` }, options),
  /** List products. `GET /v1/billing/products` */
  listBillingProducts: (options?: CallOptions) => transport.json<BillingProductList>({ method: 'GET', path: `/v1/billing/products`, open: true }, options),
  /** Refresh products. `POST /v1/billing/products/refresh` */
  refreshBillingProducts: (options?: CallOptions) => transport.json<BillingProductList>({ method: 'POST', path: `/v1/billing/products/refresh` }, options),
  /** Choose the checkout product. `PUT /v1/billing/checkout-product` */
  chooseCheckoutProduct: (input: { readonly body: ProductChoice }, options?: CallOptions) => transport.json<BillingSummary>({ method: 'PUT', path: `/v1/billing/checkout-product`, body: input.body }, options),
  /** Start a checkout. `POST /v1/billing/checkout` */
  createCheckout: (input: { readonly body: ProductChoice }, options?: CallOptions) => transport.json<Redirect>({ method: 'POST', path: `/v1/billing/checkout`, body: input.body }, options),
  /** Open the billing portal. `POST /v1/billing/portal` */
  openBillingPortal: (options?: CallOptions) => transport.json<Redirect>({ method: 'POST', path: `/v1/billing/portal` }, options),
  /** Show the sandbox checkout. `GET /v1/billing/sandbox/checkout` */
  sandboxCheckoutPage: (input: { readonly query?: {
  /** Random id in the link that a checkout or portal request returned. Valid for a day. */
  readonly session: string
} | undefined } = {}, options?: CallOptions) => transport.text({ method: 'GET', path: `/v1/billing/sandbox/checkout`, query: input.query, open: true }, options),
  /** Pay a sandbox checkout. `POST /v1/billing/sandbox/checkout` */
  paySandboxCheckout: (input: { readonly query?: {
  /** Random id in the link that a checkout or portal request returned. Valid for a day. */
  readonly session: string
} | undefined; readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.text({ method: 'POST', path: `/v1/billing/sandbox/checkout`, query: input.query, body: input.body, open: true }, options),
  /** Show the sandbox portal. `GET /v1/billing/sandbox/portal` */
  sandboxPortalPage: (input: { readonly query?: {
  /** Random id in the link that a checkout or portal request returned. Valid for a day. */
  readonly session: string
} | undefined } = {}, options?: CallOptions) => transport.text({ method: 'GET', path: `/v1/billing/sandbox/portal`, query: input.query, open: true }, options),
  /** Change a sandbox subscription. `POST /v1/billing/sandbox/portal` */
  changeInSandboxPortal: (input: { readonly query?: {
  /** Random id in the link that a checkout or portal request returned. Valid for a day. */
  readonly session: string
} | undefined; readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.text({ method: 'POST', path: `/v1/billing/sandbox/portal`, query: input.query, body: input.body, open: true }, options),
  /** Get usage of a month. `GET /v1/billing/usage` */
  getUsage: (input: { readonly query?: {
  /** Month in UTC, as `YYYY-MM`. Default: the current one. */
  readonly month?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<Usage>({ method: 'GET', path: `/v1/billing/usage`, query: input.query }, options),
  /** Set the monthly budget. `PUT /v1/billing/budget` */
  setBudget: (input: { readonly body: SetBudgetRequest }, options?: CallOptions) => transport.json<Usage>({ method: 'PUT', path: `/v1/billing/budget`, body: input.body }, options),
  /** Start installing the GitHub integration. `GET /v1/scm/install` */
  installScm: (input: { readonly query?: {
  /** For programs without a browser, such as a command line: no cookie is set, and the last page shows a confirmation for `POST /v1/scm/install/confirm` instead. */
  readonly confirm?: boolean | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<ScmInstallation>({ method: 'GET', path: `/v1/scm/install`, query: input.query }, options),
  /** Confirm an installation. `POST /v1/scm/install/confirm` */
  confirmScm: (input: { readonly body: ConfirmScmRequest }, options?: CallOptions) => transport.json<ScmConfirmed>({ method: 'POST', path: `/v1/scm/install/confirm`, body: input.body }, options),
  /** Finish installing the GitHub integration. `GET /v1/scm/callback` */
  scmCallback: (input: { readonly query?: {
  /** Number that GitHub gives the installation of its app on an account. */
  readonly installation_id: number
  /** What the person did, in the words of GitHub: `install`, `update` or `request`. Not evaluated. */
  readonly setup_action: string
  /** Signed state from `GET /v1/scm/install`. Without it the answer is 400 and nothing is bound. */
  readonly state?: string | undefined
  /** Authorization code from GitHub, which proves who is in the browser. Without it the answer is 400. */
  readonly code?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<ScmInstalled>({ method: 'GET', path: `/v1/scm/callback`, query: input.query, open: true }, options),
  /** Get the Git credential of an app. `GET /v1/apps/{app_name}/git-credential` */
  getGitCredential: (input: { readonly app_name: string }, options?: CallOptions) => transport.json<GitCredential>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/git-credential` }, options),
  /** Set the Git credential of an app. `PUT /v1/apps/{app_name}/git-credential` */
  putGitCredential: (input: { readonly app_name: string; readonly body: PutGitCredentialRequest }, options?: CallOptions) => transport.json<GitCredential>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/git-credential`, body: input.body }, options),
  /** Delete the Git credential of an app. `DELETE /v1/apps/{app_name}/git-credential` */
  deleteGitCredential: (input: { readonly app_name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/git-credential` }, options),
  /** List webhook deliveries for an app. `GET /v1/apps/{app_name}/deliveries` */
  listScmDeliveries: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'applied' | 'ignored' | 'refused' | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly ScmDelivery[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deliveries`, query: input.query }, options),
  /** Get a webhook delivery. `GET /v1/apps/{app_name}/deliveries/{delivery_id}` */
  getScmDelivery: (input: { readonly app_name: string; readonly delivery_id: string }, options?: CallOptions) => transport.json<ScmDelivery>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deliveries/${encodeURIComponent(input.delivery_id)}` }, options),
  /** List repositories. `GET /v1/scm/repos` */
  listRepositories: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `full_name` is exactly this. */
  readonly full_name?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly Repository[]>({ method: 'GET', path: `/v1/scm/repos`, query: input.query }, options),
  /** List accounts with the integration. `GET /v1/scm/accounts` */
  listScmAccounts: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `login` is exactly this. */
  readonly login?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly ScmAccount[]>({ method: 'GET', path: `/v1/scm/accounts`, query: input.query }, options),
  /** List projects. `GET /v1/projects` */
  listProjects: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly Project[]>({ method: 'GET', path: `/v1/projects`, query: input.query }, options),
  /** Create a project. `POST /v1/projects` */
  createProject: (input: { readonly body: CreateProjectRequest }, options?: CallOptions) => transport.json<Project>({ method: 'POST', path: `/v1/projects`, body: input.body }, options),
  /** Get a project. `GET /v1/projects/{tenant_slug}` */
  getProject: (input: { readonly tenant_slug: string }, options?: CallOptions) => transport.json<Project>({ method: 'GET', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}` }, options),
  /** Rename a project. `PATCH /v1/projects/{tenant_slug}` */
  updateProject: (input: { readonly tenant_slug: string; readonly body: UpdateProjectRequest }, options?: CallOptions) => transport.json<Project>({ method: 'PATCH', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}`, body: input.body }, options),
  /** Delete a project. `DELETE /v1/projects/{tenant_slug}` */
  deleteProject: (input: { readonly tenant_slug: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}` }, options),
  /** List members and invitations. `GET /v1/projects/{tenant_slug}/members` */
  listMembers: (input: { readonly tenant_slug: string }, options?: CallOptions) => transport.json<MemberList>({ method: 'GET', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/members` }, options),
  /** Invite a member. `POST /v1/projects/{tenant_slug}/members` */
  inviteMember: (input: { readonly tenant_slug: string; readonly body: InviteMemberRequest }, options?: CallOptions) => transport.json<CreatedInvitation>({ method: 'POST', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/members`, body: input.body }, options),
  /** Get a member. `GET /v1/projects/{tenant_slug}/members/{user_id}` */
  getMember: (input: { readonly tenant_slug: string; readonly user_id: string }, options?: CallOptions) => transport.json<Member>({ method: 'GET', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/members/${encodeURIComponent(input.user_id)}` }, options),
  /** Change the role of a member. `PATCH /v1/projects/{tenant_slug}/members/{user_id}` */
  updateMember: (input: { readonly tenant_slug: string; readonly user_id: string; readonly body: UpdateMemberRequest }, options?: CallOptions) => transport.json<Member>({ method: 'PATCH', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/members/${encodeURIComponent(input.user_id)}`, body: input.body }, options),
  /** Remove a member. `DELETE /v1/projects/{tenant_slug}/members/{user_id}` */
  removeMember: (input: { readonly tenant_slug: string; readonly user_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/members/${encodeURIComponent(input.user_id)}` }, options),
  /** Get an invitation of a project. `GET /v1/projects/{tenant_slug}/invitations/{invitation_id}` */
  getProjectInvitation: (input: { readonly tenant_slug: string; readonly invitation_id: string }, options?: CallOptions) => transport.json<Invitation>({ method: 'GET', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/invitations/${encodeURIComponent(input.invitation_id)}` }, options),
  /** Withdraw an invitation. `DELETE /v1/projects/{tenant_slug}/invitations/{invitation_id}` */
  withdrawInvitation: (input: { readonly tenant_slug: string; readonly invitation_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/projects/${encodeURIComponent(input.tenant_slug)}/invitations/${encodeURIComponent(input.invitation_id)}` }, options),
  /** List your invitations. `GET /v1/invitations` */
  listInvitations: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly Invitation[]>({ method: 'GET', path: `/v1/invitations`, query: input.query }, options),
  /** Get one of your invitations. `GET /v1/invitations/{invitation_id}` */
  getInvitation: (input: { readonly invitation_id: string }, options?: CallOptions) => transport.json<Invitation>({ method: 'GET', path: `/v1/invitations/${encodeURIComponent(input.invitation_id)}` }, options),
  /** Accept an invitation. `POST /v1/invitations/{invitation_id}/accept` */
  acceptInvitation: (input: { readonly invitation_id: string; readonly body?: AcceptInvitationRequest | undefined }, options?: CallOptions) => transport.json<Project>({ method: 'POST', path: `/v1/invitations/${encodeURIComponent(input.invitation_id)}/accept`, body: input.body }, options),
  /** List the environment variables of an app. `GET /v1/apps/{app_name}/env` */
  listAppEnv: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly AppEnv[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env`, query: input.query }, options),
  /** Get an environment variable of an app. `GET /v1/apps/{app_name}/env/{name}` */
  getAppEnv: (input: { readonly app_name: string; readonly name: string }, options?: CallOptions) => transport.json<AppEnv>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env/${encodeURIComponent(input.name)}` }, options),
  /** Set an environment variable of an app. `PUT /v1/apps/{app_name}/env/{name}` */
  putAppEnv: (input: { readonly app_name: string; readonly name: string; readonly body: PutAppEnvRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env/${encodeURIComponent(input.name)}`, body: input.body }, options),
  /** Delete an environment variable of an app. `DELETE /v1/apps/{app_name}/env/{name}` */
  deleteAppEnv: (input: { readonly app_name: string; readonly name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env/${encodeURIComponent(input.name)}` }, options),
  /** List the apps of a project. `GET /v1/apps` */
  listApps: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `scale_state` is exactly this. */
  readonly scale_state?: 'active' | 'idle' | 'scaled_to_zero' | 'warming_up' | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly App[]>({ method: 'GET', path: `/v1/apps`, query: input.query }, options),
  /** Create an app. `POST /v1/apps` */
  createApp: (input: { readonly body: CreateAppRequest }, options?: CallOptions) => transport.json<App>({ method: 'POST', path: `/v1/apps`, body: input.body }, options),
  /** Get an app. `GET /v1/apps/{app_name}` */
  getApp: (input: { readonly app_name: string; readonly query?: {
  /** Answers once `scale_state` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<App>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}`, query: input.query }, options),
  /** Change an app. `PATCH /v1/apps/{app_name}` */
  updateApp: (input: { readonly app_name: string; readonly body: UpdateAppRequest }, options?: CallOptions) => transport.json<App>({ method: 'PATCH', path: `/v1/apps/${encodeURIComponent(input.app_name)}`, body: input.body }, options),
  /** Delete an app. `DELETE /v1/apps/{app_name}` */
  deleteApp: (input: { readonly app_name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}` }, options),
  /** Get the webhook secret of an app. `GET /v1/apps/{app_name}/secret` */
  getAppSecret: (input: { readonly app_name: string }, options?: CallOptions) => transport.json<AppSecret>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/secret` }, options),
  /** Scale an app. `PATCH /v1/apps/{app_name}/scale` */
  scaleApp: (input: { readonly app_name: string; readonly body: ScaleAppRequest }, options?: CallOptions) => transport.json<ScaledApp>({ method: 'PATCH', path: `/v1/apps/${encodeURIComponent(input.app_name)}/scale`, body: input.body }, options),
  /** Deploy an image. `POST /v1/deploy` */
  deploy: (input: { readonly body: DeployRequest }, options?: CallOptions) => transport.json<DeployResponse>({ method: 'POST', path: `/v1/deploy`, body: input.body }, options),
  /** Deploy an app. `POST /v1/apps/{app_name}/deploy` */
  deployApp: (input: { readonly app_name: string; readonly body: DeployAppRequest }, options?: CallOptions) => transport.json<DeployResponse>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deploy`, body: input.body }, options),
  /** List the files of an app. `GET /v1/apps/{app_name}/files` */
  listAppFiles: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly AppFile[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/files`, query: input.query }, options),
  /** Set a file of an app. `PUT /v1/apps/{app_name}/files` */
  putAppFile: (input: { readonly app_name: string; readonly body: PutAppFileRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/files`, body: input.body }, options),
  /** Delete a file of an app. `DELETE /v1/apps/{app_name}/files` */
  deleteAppFile: (input: { readonly app_name: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/files`, query: input.query }, options),
  /** Get the content of a file of an app. `GET /v1/apps/{app_name}/files/content` */
  getAppFileContent: (input: { readonly app_name: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<AppFileContent>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/files/content`, query: input.query }, options),
  /** List the environment groups of a project. `GET /v1/env-groups` */
  listEnvGroups: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly EnvGroup[]>({ method: 'GET', path: `/v1/env-groups`, query: input.query }, options),
  /** Create an environment group. `POST /v1/env-groups` */
  createEnvGroup: (input: { readonly body: CreateEnvGroupRequest }, options?: CallOptions) => transport.json<EnvGroup>({ method: 'POST', path: `/v1/env-groups`, body: input.body }, options),
  /** Get an environment group. `GET /v1/env-groups/{group_name}` */
  getEnvGroup: (input: { readonly group_name: string }, options?: CallOptions) => transport.json<EnvGroup>({ method: 'GET', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}` }, options),
  /** Delete an environment group. `DELETE /v1/env-groups/{group_name}` */
  deleteEnvGroup: (input: { readonly group_name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}` }, options),
  /** List the variables of a group. `GET /v1/env-groups/{group_name}/env` */
  listEnvGroupVariables: (input: { readonly group_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly EnvGroupVariable[]>({ method: 'GET', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/env`, query: input.query }, options),
  /** Get a variable of a group. `GET /v1/env-groups/{group_name}/env/{name}` */
  getEnvGroupVariable: (input: { readonly group_name: string; readonly name: string }, options?: CallOptions) => transport.json<EnvGroupVariable>({ method: 'GET', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/env/${encodeURIComponent(input.name)}` }, options),
  /** Set a variable of a group. `PUT /v1/env-groups/{group_name}/env/{name}` */
  putEnvGroupVariable: (input: { readonly group_name: string; readonly name: string; readonly body: PutEnvGroupVariableRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'PUT', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/env/${encodeURIComponent(input.name)}`, body: input.body }, options),
  /** Delete a variable of a group. `DELETE /v1/env-groups/{group_name}/env/{name}` */
  deleteEnvGroupVariable: (input: { readonly group_name: string; readonly name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/env/${encodeURIComponent(input.name)}` }, options),
  /** List the versions of the variables of a group. `GET /v1/env-groups/{group_name}/versions` */
  listEnvGroupVersions: (input: { readonly group_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly EnvVersion[]>({ method: 'GET', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/versions`, query: input.query }, options),
  /** Get a version of the variables of a group. `GET /v1/env-groups/{group_name}/versions/{version}` */
  getEnvGroupVersion: (input: { readonly group_name: string; readonly version: string }, options?: CallOptions) => transport.json<EnvVersion>({ method: 'GET', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/versions/${encodeURIComponent(input.version)}` }, options),
  /** Restore a version of the variables of a group. `POST /v1/env-groups/{group_name}/versions/{version}/restore` */
  restoreEnvGroupVersion: (input: { readonly group_name: string; readonly version: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/env-groups/${encodeURIComponent(input.group_name)}/versions/${encodeURIComponent(input.version)}/restore` }, options),
  /** List the environment groups of an app. `GET /v1/apps/{app_name}/env-groups` */
  listAppEnvGroups: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly AppEnvGroup[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env-groups`, query: input.query }, options),
  /** Attach environment groups to an app. `PUT /v1/apps/{app_name}/env-groups` */
  setAppEnvGroups: (input: { readonly app_name: string; readonly body: SetAppEnvGroupsRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env-groups`, body: input.body }, options),
  /** List the versions of the variables of an app. `GET /v1/apps/{app_name}/env-versions` */
  listAppEnvVersions: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly EnvVersion[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env-versions`, query: input.query }, options),
  /** Get a version of the variables of an app. `GET /v1/apps/{app_name}/env-versions/{version}` */
  getAppEnvVersion: (input: { readonly app_name: string; readonly version: string }, options?: CallOptions) => transport.json<EnvVersion>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env-versions/${encodeURIComponent(input.version)}` }, options),
  /** Restore a version of the variables of an app. `POST /v1/apps/{app_name}/env-versions/{version}/restore` */
  restoreAppEnvVersion: (input: { readonly app_name: string; readonly version: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/env-versions/${encodeURIComponent(input.version)}/restore` }, options),
  /** List domains of an app. `GET /v1/apps/{app_name}/domains` */
  listDomains: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'pending' | 'verified' | 'lost' | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly Domain[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/domains`, query: input.query }, options),
  /** Add a domain to an app. `POST /v1/apps/{app_name}/domains` */
  addDomain: (input: { readonly app_name: string; readonly body: AddDomainRequest }, options?: CallOptions) => transport.json<Domain>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/domains`, body: input.body }, options),
  /** Get a domain. `GET /v1/apps/{app_name}/domains/{domain}` */
  getDomain: (input: { readonly app_name: string; readonly domain: string }, options?: CallOptions) => transport.json<Domain>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/domains/${encodeURIComponent(input.domain)}` }, options),
  /** Remove a domain from an app. `DELETE /v1/apps/{app_name}/domains/{domain}` */
  deleteDomain: (input: { readonly app_name: string; readonly domain: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/domains/${encodeURIComponent(input.domain)}` }, options),
  /** Verify a domain now. `POST /v1/apps/{app_name}/domains/{domain}/verify` */
  verifyDomain: (input: { readonly app_name: string; readonly domain: string }, options?: CallOptions) => transport.json<Domain>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/domains/${encodeURIComponent(input.domain)}/verify` }, options),
  /** List the deployments of an app. `GET /v1/apps/{app_name}/deployments` */
  listDeployments: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
  /** Only items whose `git_branch` is exactly this. */
  readonly git_branch?: string | undefined
  /** Only items whose `trigger_source` is exactly this. */
  readonly trigger_source?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly Deployment[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments`, query: input.query }, options),
  /** Follow the deployments of an app. `GET /v1/apps/{app_name}/deployments/stream` */
  streamDeployments: (input: { readonly app_name: string }, options?: StreamOptions) => transport.stream<{ 'snapshot': DeploymentsSnapshot; 'deployment.status': DeploymentStatusEvent; 'gap': EventGap | SlowReaderGap }>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/stream` }, options),
  /** Follow the logs of an app. `GET /v1/apps/{app_name}/logs/stream` */
  streamAppLogs: (input: { readonly app_name: string; readonly query?: {
  /** Number of history lines sent first, over all VMs. Default: 100; with `since`, 10000. */
  readonly tail?: number | undefined
  /** Only later lines: a time (RFC 3339), or how long ago, such as `30s`, `15m`, `1h`, `7d` or `1w`. */
  readonly since?: string | undefined
  /** Only lines that contain this text, in upper or lower case. */
  readonly text?: string | undefined
  /** Only lines of one VM: its id, the last characters of it (6 or more), or its number among the replicas that run, the oldest is 1. */
  readonly replica?: string | undefined
  /** Only lines of one deployment, also of a deleted one: its job id or UUID. */
  readonly deployment?: string | undefined
  /** Only lines of the program, or only those of the platform. */
  readonly source?: 'app' | 'platform' | undefined
  /** Only lines of one stream. */
  readonly stream?: 'stdout' | 'stderr' | 'system' | 'build' | undefined
} | undefined }, options?: StreamOptions) => transport.stream<{ 'snapshot': LogSnapshot; 'log': LogLine; 'gap': LogGap | SlowReaderGap }>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/logs/stream`, query: input.query }, options),
  /** Follow the live numbers of an app. `GET /v1/apps/{app_name}/metrics/stream` */
  streamAppMetrics: (input: { readonly app_name: string }, options?: StreamOptions) => transport.stream<{ 'snapshot': MetricsSnapshot; 'metrics': MetricsEvent; 'gap': SlowReaderGap }>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/metrics/stream` }, options),
  /** Follow everything in a project. `GET /v1/workspace/events` */
  streamWorkspace: (options?: StreamOptions) => transport.stream<{ 'snapshot': DeploymentsSnapshot; 'deployment.status': DeploymentStatusEvent; 'notification': NotificationEvent; 'security_rule.created': SecurityRuleEvent; 'security_rule.deleted': SecurityRuleEvent; 'domain.verified': DomainEvent; 'domain.lost': DomainEvent; 'gap': EventGap | SlowReaderGap }>({ method: 'GET', path: `/v1/workspace/events` }, options),
  /** Follow the deployments of a project. `GET /v1/deployments/events` */
  streamAllDeployments: (options?: StreamOptions) => transport.stream<{ 'snapshot': DeploymentsSnapshot; 'deployment.status': DeploymentStatusEvent; 'gap': EventGap | SlowReaderGap }>({ method: 'GET', path: `/v1/deployments/events` }, options),
  /** List the live deployments of a project. `GET /v1/deployments/active` */
  listActiveDeployments: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
  /** Only items whose `app_name` is exactly this. */
  readonly app_name?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly LiveDeployment[]>({ method: 'GET', path: `/v1/deployments/active`, query: input.query }, options),
  /** Activate a deployment. `POST /v1/apps/{app_name}/deployments/{deployment_id}/activate` */
  activateDeployment: (input: { readonly app_name: string; readonly deployment_id: string }, options?: CallOptions) => transport.json<Deployment>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.deployment_id)}/activate` }, options),
  /** Get a deployment. `GET /v1/apps/{app_name}/deployments/{job_id}` */
  getDeployment: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<LiveDeploymentStatus>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}`, query: input.query }, options),
  /** Stop a deployment. `DELETE /v1/apps/{app_name}/deployments/{job_id}` */
  stopDeployment: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<DeploymentAction>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}` }, options),
  /** Compare two deployments. `GET /v1/apps/{app_name}/deployments/{job_id}/diff` */
  compareDeployment: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Job id or UUID of the deployment to compare with. Default: the one that was created before it. */
  readonly base?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<DeploymentDiff>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/diff`, query: input.query }, options),
  /** Follow the logs of a deployment. `GET /v1/apps/{app_name}/deployments/{job_id}/logs` */
  streamDeploymentLogs: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Number of history lines sent first, over all VMs. Default: 100; with `since`, 10000. */
  readonly tail?: number | undefined
  /** Only later lines: a time (RFC 3339), or how long ago, such as `30s`, `15m`, `1h`, `7d` or `1w`. */
  readonly since?: string | undefined
  /** Only lines that contain this text, in upper or lower case. */
  readonly text?: string | undefined
  /** Only lines of one VM: its id, the last characters of it (6 or more), or its number among the replicas that run, the oldest is 1. */
  readonly replica?: string | undefined
  /** Only lines of the program, or only those of the platform. */
  readonly source?: 'app' | 'platform' | undefined
  /** Only lines of one stream. */
  readonly stream?: 'stdout' | 'stderr' | 'system' | 'build' | undefined
} | undefined }, options?: StreamOptions) => transport.stream<{ 'snapshot': LogSnapshot; 'log': LogLine; 'gap': LogGap | SlowReaderGap }>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/logs`, query: input.query }, options),
  /** Pause a deployment. `POST /v1/apps/{app_name}/deployments/{job_id}/pause` */
  pauseDeployment: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<DeploymentAction>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/pause` }, options),
  /** Cancel a deployment. `POST /v1/apps/{app_name}/deployments/{job_id}/cancel` */
  cancelDeployment: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<DeploymentAction>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/cancel` }, options),
  /** Resume a deployment. `POST /v1/apps/{app_name}/deployments/{job_id}/resume` */
  resumeDeployment: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<DeploymentAction>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/resume` }, options),
  /** Delete a deployment. `DELETE /v1/apps/{app_name}/deployments/{job_id}/delete` */
  deleteDeployment: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<DeploymentAction>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/delete` }, options),
  /** Search the logs of an app. `GET /v1/apps/{app_name}/logs` */
  searchAppLogs: (input: { readonly app_name: string; readonly query?: {
  /** Only later lines: a time (RFC 3339), or how long ago, such as `30s`, `15m`, `1h`, `7d` or `1w`. */
  readonly since?: string | undefined
  /** Only lines that contain this text, in upper or lower case. */
  readonly text?: string | undefined
  /** Only lines of one VM: its id, the last characters of it (6 or more), or its number among the replicas that run, the oldest is 1. */
  readonly replica?: string | undefined
  /** Only lines of one deployment, also of a deleted one: its job id or UUID. */
  readonly deployment?: string | undefined
  /** Only lines of the program, or only those of the platform. */
  readonly source?: 'app' | 'platform' | undefined
  /** Only lines of one stream. */
  readonly stream?: 'stdout' | 'stderr' | 'system' | 'build' | undefined
  /** Only earlier lines, as in `since`. */
  readonly until?: string | undefined
  /** Which lines come first. `oldest` without `until` leaves out the last second, so that no line is missed when the next page is read. */
  readonly order?: 'newest' | 'oldest' | undefined
  /** Number of lines. */
  readonly limit?: number | undefined
  /** Where to go on: a cursor of another page. */
  readonly cursor?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<LogPage>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/logs`, query: input.query }, options),
  /** Download the logs of an app. `GET /v1/apps/{app_name}/logs/download` */
  downloadAppLogs: (input: { readonly app_name: string; readonly query?: {
  /** Only later lines: a time (RFC 3339), or how long ago, such as `30s`, `15m`, `1h`, `7d` or `1w`. */
  readonly since?: string | undefined
  /** Only lines that contain this text, in upper or lower case. */
  readonly text?: string | undefined
  /** Only lines of one VM: its id, the last characters of it (6 or more), or its number among the replicas that run, the oldest is 1. */
  readonly replica?: string | undefined
  /** Only lines of one deployment, also of a deleted one: its job id or UUID. */
  readonly deployment?: string | undefined
  /** Only lines of the program, or only those of the platform. */
  readonly source?: 'app' | 'platform' | undefined
  /** Only lines of one stream. */
  readonly stream?: 'stdout' | 'stderr' | 'system' | 'build' | undefined
  /** Only earlier lines, as in `since`. */
  readonly until?: string | undefined
  /** `text`: time, VM, stream and line. `jsonl`: one JSON object a line. */
  readonly format?: 'text' | 'jsonl' | undefined
} | undefined }, options?: ByteOptions) => transport.bytes({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/logs/download`, query: input.query }, options),
  /** Get the traffic and metrics of an app over time. `GET /v1/apps/{app_name}/history` */
  getAppHistory: (input: { readonly app_name: string; readonly query?: {
  /** Length of the time up to now. */
  readonly range?: '1h' | '6h' | '24h' | '7d' | '30d' | undefined
} | undefined }, options?: CallOptions) => transport.json<AppHistory>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/history`, query: input.query }, options),
  /** Run a command in a separate VM. `POST /v1/apps/{app_name}/runs` */
  startRun: (input: { readonly app_name: string; readonly body?: StartRunRequest | undefined }, options?: CallOptions) => transport.json<Run>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/runs`, body: input.body }, options),
  /** List the runs of an app. `GET /v1/apps/{app_name}/runs` */
  listRuns: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'pending' | 'starting' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost' | undefined
  /** Only items whose `purpose` is exactly this. */
  readonly purpose?: 'command' | 'release' | 'job' | undefined
  /** Only items whose `job_name` is exactly this. */
  readonly job_name?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly Run[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/runs`, query: input.query }, options),
  /** Get a run. `GET /v1/apps/{app_name}/runs/{run_id}` */
  getRun: (input: { readonly app_name: string; readonly run_id: string }, options?: CallOptions) => transport.json<Run>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/runs/${encodeURIComponent(input.run_id)}` }, options),
  /** Cancel a run. `DELETE /v1/apps/{app_name}/runs/{run_id}` */
  cancelRun: (input: { readonly app_name: string; readonly run_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/runs/${encodeURIComponent(input.run_id)}` }, options),
  /** Get the output of a run. `GET /v1/apps/{app_name}/runs/{run_id}/log` */
  getRunLog: (input: { readonly app_name: string; readonly run_id: string }, options?: CallOptions) => transport.json<RunLog>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/runs/${encodeURIComponent(input.run_id)}/log` }, options),
  /** List the jobs of an app. `GET /v1/apps/{app_name}/jobs` */
  listJobs: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `overlap` is exactly this. */
  readonly overlap?: 'skip' | 'allow' | 'replace' | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly Job[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/jobs`, query: input.query }, options),
  /** Get a job. `GET /v1/apps/{app_name}/jobs/{job_name}` */
  getJob: (input: { readonly app_name: string; readonly job_name: string }, options?: CallOptions) => transport.json<Job>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/jobs/${encodeURIComponent(input.job_name)}` }, options),
  /** Create or change a job. `PUT /v1/apps/{app_name}/jobs/{job_name}` */
  putJob: (input: { readonly app_name: string; readonly job_name: string; readonly body: PutJobRequest }, options?: CallOptions) => transport.json<Job>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/jobs/${encodeURIComponent(input.job_name)}`, body: input.body }, options),
  /** Delete a job. `DELETE /v1/apps/{app_name}/jobs/{job_name}` */
  deleteJob: (input: { readonly app_name: string; readonly job_name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/jobs/${encodeURIComponent(input.job_name)}` }, options),
  /** Run a job now. `POST /v1/apps/{app_name}/jobs/{job_name}/run` */
  startJob: (input: { readonly app_name: string; readonly job_name: string }, options?: CallOptions) => transport.json<StartedJob>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/jobs/${encodeURIComponent(input.job_name)}/run` }, options),
  /** Upload the source of an app. `PUT /v1/apps/{app_name}/source` */
  putAppSource: (input: { readonly app_name: string; readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.json<AppSource>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/source`, body: input.body }, options),
  /** List the builds of an app. `GET /v1/apps/{app_name}/builds` */
  listBuilds: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'queued' | 'fetching' | 'building' | 'pushing' | 'succeeded' | 'failed' | 'cancelled' | 'superseded' | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly Build[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/builds`, query: input.query }, options),
  /** Get a build. `GET /v1/apps/{app_name}/builds/{build_id}` */
  getBuild: (input: { readonly app_name: string; readonly build_id: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<Build>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/builds/${encodeURIComponent(input.build_id)}`, query: input.query }, options),
  /** Get the log of a build. `GET /v1/apps/{app_name}/builds/{build_id}/log` */
  getBuildLog: (input: { readonly app_name: string; readonly build_id: string; readonly query?: {
  /** Number of lines, taken from the end. */
  readonly tail?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<BuildLog>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/builds/${encodeURIComponent(input.build_id)}/log`, query: input.query }, options),
  /** Take a snapshot of a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/snapshot` */
  createVmSnapshot: (input: { readonly app_name: string; readonly job_id: string; readonly body: CreateVmSnapshotRequest }, options?: CallOptions) => transport.json<VmSnapshot>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/snapshot`, body: input.body }, options),
  /** List the snapshots of a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/snapshots` */
  listVmSnapshots: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'creating' | 'ready' | 'failed' | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly VmSnapshot[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/snapshots`, query: input.query }, options),
  /** Get a snapshot of a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/snapshot/{snapshot_name}` */
  getVmSnapshot: (input: { readonly app_name: string; readonly job_id: string; readonly snapshot_name: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<VmSnapshot>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/snapshot/${encodeURIComponent(input.snapshot_name)}`, query: input.query }, options),
  /** Delete a snapshot of a VM. `DELETE /v1/apps/{app_name}/deployments/{job_id}/snapshot/{snapshot_name}` */
  deleteVmSnapshot: (input: { readonly app_name: string; readonly job_id: string; readonly snapshot_name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/snapshot/${encodeURIComponent(input.snapshot_name)}` }, options),
  /** Restore a VM from a snapshot. `POST /v1/apps/{app_name}/deployments/{job_id}/snapshot/{snapshot_name}/restore` */
  restoreVmSnapshot: (input: { readonly app_name: string; readonly job_id: string; readonly snapshot_name: string }, options?: CallOptions) => transport.json<VmSnapshotRestored>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/snapshot/${encodeURIComponent(input.snapshot_name)}/restore` }, options),
  /** Start a new app from a snapshot. `POST /v1/apps/{app_name}/deployments/{job_id}/snapshot/{snapshot_name}/fork` */
  forkVmSnapshot: (input: { readonly app_name: string; readonly job_id: string; readonly snapshot_name: string; readonly body: ForkVmSnapshotRequest }, options?: CallOptions) => transport.json<VmFork>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/snapshot/${encodeURIComponent(input.snapshot_name)}/fork`, body: input.body }, options),
  /** Run a program in a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/exec` */
  execInVm: (input: { readonly app_name: string; readonly job_id: string; readonly body: ExecRequest }, options?: CallOptions) => transport.json<ExecAnswer>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/exec`, body: input.body }, options),
  /** Attach a volume to running VMs. `POST /v1/apps/{app_name}/deployments/{job_id}/volumes/attach` */
  attachRuntimeVolume: (input: { readonly app_name: string; readonly job_id: string; readonly body: AttachRuntimeVolumeRequest }, options?: CallOptions) => transport.json<RuntimeVolumeAttached>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/volumes/attach`, body: input.body }, options),
  /** Detach a volume from running VMs. `POST /v1/apps/{app_name}/deployments/{job_id}/volumes/detach` */
  detachRuntimeVolume: (input: { readonly app_name: string; readonly job_id: string; readonly body: DetachRuntimeVolumeRequest }, options?: CallOptions) => transport.json<RuntimeVolumeDetached>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/volumes/detach`, body: input.body }, options),
  /** Move a VM to another host. `POST /v1/apps/{app_name}/deployments/{job_id}/migration/start` */
  startMigration: (input: { readonly app_name: string; readonly job_id: string; readonly body: StartMigrationRequest }, options?: CallOptions) => transport.json<MigrationStatus>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/migration/start`, body: input.body }, options),
  /** Cancel the move of a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/migration/cancel` */
  cancelMigration: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<MigrationStatus>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/migration/cancel` }, options),
  /** Get the move of a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/migration/status` */
  getMigration: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<MigrationStatus>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/migration/status` }, options),
  /** Get the memory of a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/balloon` */
  getBalloon: (input: { readonly app_name: string; readonly job_id: string }, options?: CallOptions) => transport.json<Balloon>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/balloon` }, options),
  /** Change the memory of a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/balloon` */
  setBalloon: (input: { readonly app_name: string; readonly job_id: string; readonly body: SetBalloonRequest }, options?: CallOptions) => transport.json<Balloon>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/balloon`, body: input.body }, options),
  /** Start a program in a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/sessions` */
  openVmSession: (input: { readonly app_name: string; readonly job_id: string; readonly body?: OpenVmSessionRequest | undefined }, options?: CallOptions) => transport.json<VmSession>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/sessions`, body: input.body }, options),
  /** List the sessions of a deployment. `GET /v1/apps/{app_name}/deployments/{job_id}/sessions` */
  listVmSessions: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'running' | 'exited' | 'signaled' | 'lost' | undefined
  /** Only items whose `vm_id` is exactly this. */
  readonly vm_id?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly VmSession[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/sessions`, query: input.query }, options),
  /** Get a session. `GET /v1/apps/{app_name}/deployments/{job_id}/sessions/{session_id}` */
  getVmSession: (input: { readonly app_name: string; readonly job_id: string; readonly session_id: string }, options?: CallOptions) => transport.json<VmSession>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/sessions/${encodeURIComponent(input.session_id)}` }, options),
  /** End a session. `DELETE /v1/apps/{app_name}/deployments/{job_id}/sessions/{session_id}` */
  closeVmSession: (input: { readonly app_name: string; readonly job_id: string; readonly session_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/sessions/${encodeURIComponent(input.session_id)}` }, options),
  /** Send a signal to a session. `POST /v1/apps/{app_name}/deployments/{job_id}/sessions/{session_id}/signal` */
  signalVmSession: (input: { readonly app_name: string; readonly job_id: string; readonly session_id: string; readonly body: SignalVmSessionRequest }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/sessions/${encodeURIComponent(input.session_id)}/signal`, body: input.body }, options),
  /** List the processes of a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/processes` */
  listVmProcesses: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** The VM. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<VmProcessList>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/processes`, query: input.query }, options),
  /** Get the SSH address of an app. `GET /v1/apps/{app_name}/ssh` */
  getAppSsh: (input: { readonly app_name: string }, options?: CallOptions) => transport.json<AppSsh>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/ssh` }, options),
  /** List a directory in a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/files` */
  listVmFiles: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
  /** Levels below the path. */
  readonly depth?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<VmFileList>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files`, query: input.query }, options),
  /** Remove a file from a VM. `DELETE /v1/apps/{app_name}/deployments/{job_id}/files` */
  removeVmFile: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
  /** Whether a directory is removed with its content. */
  readonly recursive?: boolean | undefined
} | undefined }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files`, query: input.query }, options),
  /** Get the properties of a file in a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/files/stat` */
  getVmFile: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<VmFile>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files/stat`, query: input.query }, options),
  /** Get the free space of a file system in a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/files/space` */
  getVmSpace: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<VmSpace>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files/space`, query: input.query }, options),
  /** Download a file from a VM. `GET /v1/apps/{app_name}/deployments/{job_id}/files/content` */
  readVmFile: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
} | undefined }, options?: ByteOptions) => transport.bytes({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files/content`, query: input.query }, options),
  /** Upload a file to a VM. `PUT /v1/apps/{app_name}/deployments/{job_id}/files/content` */
  writeVmFile: (input: { readonly app_name: string; readonly job_id: string; readonly query?: {
  /** Absolute path in the VM. */
  readonly path?: string | undefined
  /** Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8. */
  readonly encoded_path?: string | undefined
  /** Name or number of the user in the VM. Default: of the image. */
  readonly user?: string | undefined
  /** The VM to use. Default: the first running VM of the deployment. */
  readonly vm_id?: string | undefined
  /** Mode of the file. Default: of the file that it replaces, otherwise 644. */
  readonly mode?: string | undefined
} | undefined; readonly body: string | Uint8Array<ArrayBuffer> | Blob }, options?: CallOptions) => transport.json<WrittenVmFile>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files/content`, query: input.query, body: input.body }, options),
  /** Make a directory in a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/files/directories` */
  createVmDirectory: (input: { readonly app_name: string; readonly job_id: string; readonly body?: CreateVmDirectoryRequest | undefined }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files/directories`, body: input.body }, options),
  /** Rename a file in a VM. `POST /v1/apps/{app_name}/deployments/{job_id}/files/move` */
  moveVmFile: (input: { readonly app_name: string; readonly job_id: string; readonly body?: MoveVmFileRequest | undefined }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/deployments/${encodeURIComponent(input.job_id)}/files/move`, body: input.body }, options),
  /** List security rules. `GET /v1/apps/{app_name}/security-groups` */
  listSecurityRules: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `direction` is exactly this. */
  readonly direction?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly SecurityRule[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/security-groups`, query: input.query }, options),
  /** Create a security rule. `POST /v1/apps/{app_name}/security-groups` */
  createSecurityRule: (input: { readonly app_name: string; readonly body: CreateSecurityRuleRequest }, options?: CallOptions) => transport.json<SecurityRule>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_name)}/security-groups`, body: input.body }, options),
  /** Get a security rule. `GET /v1/apps/{app_name}/security-groups/{rule_id}` */
  getSecurityRule: (input: { readonly app_name: string; readonly rule_id: string }, options?: CallOptions) => transport.json<SecurityRule>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/security-groups/${encodeURIComponent(input.rule_id)}` }, options),
  /** Delete a security rule. `DELETE /v1/apps/{app_name}/security-groups/{rule_id}` */
  deleteSecurityRule: (input: { readonly app_name: string; readonly rule_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/security-groups/${encodeURIComponent(input.rule_id)}` }, options),
  /** Get the mesh. `GET /v1/networking/mesh` */
  getMesh: (options?: CallOptions) => transport.json<MeshStatus>({ method: 'GET', path: `/v1/networking/mesh` }, options),
  /** Stream the mesh. `GET /v1/networking/mesh/stream` */
  streamMesh: (options?: StreamOptions) => transport.stream<{ 'snapshot': MeshEvent; 'mesh': MeshEvent; 'gap': SlowReaderGap }>({ method: 'GET', path: `/v1/networking/mesh/stream` }, options),
  /** List the volumes of a project. `GET /v1/volumes` */
  listVolumes: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly VolumeWithAttachments[]>({ method: 'GET', path: `/v1/volumes`, query: input.query }, options),
  /** Create a volume. `POST /v1/volumes` */
  createVolume: (input: { readonly body: CreateVolumeRequest }, options?: CallOptions) => transport.json<Volume>({ method: 'POST', path: `/v1/volumes`, body: input.body }, options),
  /** Get a volume. `GET /v1/volumes/{volume_id}` */
  getVolume: (input: { readonly volume_id: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<VolumeWithAttachments>({ method: 'GET', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}`, query: input.query }, options),
  /** Grow a volume. `PATCH /v1/volumes/{volume_id}` */
  updateVolume: (input: { readonly volume_id: string; readonly body: UpdateVolumeRequest }, options?: CallOptions) => transport.json<Volume>({ method: 'PATCH', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}`, body: input.body }, options),
  /** Delete a volume. `DELETE /v1/volumes/{volume_id}` */
  deleteVolume: (input: { readonly volume_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}` }, options),
  /** Move a volume to another host. `POST /v1/volumes/{volume_id}/move` */
  moveVolume: (input: { readonly volume_id: string; readonly body: MoveVolumeRequest }, options?: CallOptions) => transport.json<VolumeMoveStatus>({ method: 'POST', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/move`, body: input.body }, options),
  /** Get the move of a volume. `GET /v1/volumes/{volume_id}/move` */
  getVolumeMove: (input: { readonly volume_id: string }, options?: CallOptions) => transport.json<VolumeMoveStatus>({ method: 'GET', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/move` }, options),
  /** Cancel the move of a volume. `POST /v1/volumes/{volume_id}/move/cancel` */
  cancelVolumeMove: (input: { readonly volume_id: string }, options?: CallOptions) => transport.json<VolumeMoveStatus>({ method: 'POST', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/move/cancel` }, options),
  /** Get the usage of a volume. `GET /v1/volumes/{volume_id}/usage` */
  getVolumeUsage: (input: { readonly volume_id: string }, options?: CallOptions) => transport.json<VolumeUsage>({ method: 'GET', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/usage` }, options),
  /** List the snapshots of a volume. `GET /v1/volumes/{volume_id}/snapshots` */
  listVolumeSnapshots: (input: { readonly volume_id: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly VolumeSnapshot[]>({ method: 'GET', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/snapshots`, query: input.query }, options),
  /** Take a snapshot of a volume. `POST /v1/volumes/{volume_id}/snapshots` */
  createVolumeSnapshot: (input: { readonly volume_id: string; readonly body: CreateVolumeSnapshotRequest }, options?: CallOptions) => transport.json<VolumeSnapshot>({ method: 'POST', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/snapshots`, body: input.body }, options),
  /** Restore a volume from a snapshot. `POST /v1/volumes/{volume_id}/restore` */
  restoreVolume: (input: { readonly volume_id: string; readonly body: RestoreVolumeRequest }, options?: CallOptions) => transport.json<Volume>({ method: 'POST', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/restore`, body: input.body }, options),
  /** Clone a volume from a snapshot. `POST /v1/volumes/{volume_id}/clone` */
  cloneVolume: (input: { readonly volume_id: string; readonly body: CloneVolumeRequest }, options?: CallOptions) => transport.json<Volume>({ method: 'POST', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/clone`, body: input.body }, options),
  /** Get the snapshot schedule of a volume. `GET /v1/volumes/{volume_id}/schedule` */
  getVolumeSchedule: (input: { readonly volume_id: string }, options?: CallOptions) => transport.json<VolumeSchedule>({ method: 'GET', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/schedule` }, options),
  /** Set the snapshot schedule of a volume. `PUT /v1/volumes/{volume_id}/schedule` */
  setVolumeSchedule: (input: { readonly volume_id: string; readonly body: VolumeSchedule }, options?: CallOptions) => transport.json<VolumeSchedule>({ method: 'PUT', path: `/v1/volumes/${encodeURIComponent(input.volume_id)}/schedule`, body: input.body }, options),
  /** Get a snapshot of a volume. `GET /v1/snapshots/{snapshot_id}` */
  getVolumeSnapshot: (input: { readonly snapshot_id: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<VolumeSnapshot>({ method: 'GET', path: `/v1/snapshots/${encodeURIComponent(input.snapshot_id)}`, query: input.query }, options),
  /** Delete a snapshot of a volume. `DELETE /v1/snapshots/{snapshot_id}` */
  deleteVolumeSnapshot: (input: { readonly snapshot_id: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/snapshots/${encodeURIComponent(input.snapshot_id)}` }, options),
  /** List the volumes of an app. `GET /v1/apps/{app_id}/volumes` */
  listAppVolumes: (input: { readonly app_id: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly AttachedVolume[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_id)}/volumes`, query: input.query }, options),
  /** Get a volume of an app. `GET /v1/apps/{app_id}/volumes/{volume_id}` */
  getAppVolume: (input: { readonly app_id: string; readonly volume_id: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<AttachedVolume>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_id)}/volumes/${encodeURIComponent(input.volume_id)}`, query: input.query }, options),
  /** Attach a volume to an app. `POST /v1/apps/{app_id}/volumes/attach` */
  attachVolume: (input: { readonly app_id: string; readonly body: AttachVolumeRequest }, options?: CallOptions) => transport.json<AttachedVolume>({ method: 'POST', path: `/v1/apps/${encodeURIComponent(input.app_id)}/volumes/attach`, body: input.body }, options),
  /** Detach a volume from an app. `DELETE /v1/apps/{app_id}/volumes/{volume_id}/detach` */
  detachVolume: (input: { readonly app_id: string; readonly volume_id: string }, options?: CallOptions) => transport.json<DetachedVolume>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_id)}/volumes/${encodeURIComponent(input.volume_id)}/detach` }, options),
  /** List the databases of a project. `GET /v1/databases` */
  listDatabases: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly Database[]>({ method: 'GET', path: `/v1/databases`, query: input.query }, options),
  /** Create a database. `POST /v1/databases` */
  createDatabase: (input: { readonly body: CreateDatabaseRequest }, options?: CallOptions) => transport.json<Database>({ method: 'POST', path: `/v1/databases`, body: input.body }, options),
  /** Delete a database. `DELETE /v1/databases/{id}` */
  deleteDatabase: (input: { readonly id: string }, options?: CallOptions) => transport.json<null>({ method: 'DELETE', path: `/v1/databases/${encodeURIComponent(input.id)}` }, options),
  /** Get a database. `GET /v1/databases/{id}` */
  getDatabase: (input: { readonly id: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<Database>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}`, query: input.query }, options),
  /** Change a database. `PATCH /v1/databases/{id}` */
  updateDatabase: (input: { readonly id: string; readonly body?: UpdateDatabaseRequest | undefined }, options?: CallOptions) => transport.json<Database>({ method: 'PATCH', path: `/v1/databases/${encodeURIComponent(input.id)}`, body: input.body }, options),
  /** Rotate the password of a database. `POST /v1/databases/{id}/rotate-password` */
  rotateDatabasePassword: (input: { readonly id: string }, options?: CallOptions) => transport.json<Database>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/rotate-password` }, options),
  /** Follow the log of a database. `GET /v1/databases/{id}/logs/stream` */
  streamDatabaseLogs: (input: { readonly id: string; readonly query?: {
  /** Number of history lines sent first. Default: 100. */
  readonly tail?: number | undefined
} | undefined }, options?: StreamOptions) => transport.stream<{ 'snapshot': LogSnapshot; 'log': LogLine; 'gap': LogGap | SlowReaderGap }>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/logs/stream`, query: input.query }, options),
  /** Follow the live numbers of a database. `GET /v1/databases/{id}/metrics/stream` */
  streamDatabaseMetrics: (input: { readonly id: string }, options?: StreamOptions) => transport.stream<{ 'snapshot': MetricsSnapshot; 'metrics': MetricsEvent; 'gap': SlowReaderGap }>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/metrics/stream` }, options),
  /** Get the connection of a database. `GET /v1/databases/{id}/connection` */
  getDatabaseConnection: (input: { readonly id: string; readonly query?: {
  /** The branch to connect to. Default: the current one. */
  readonly branch?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<DatabaseConnection>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/connection`, query: input.query }, options),
  /** Create a tunnel password. `POST /v1/databases/{id}/tunnel-password` */
  createTunnelPassword: (input: { readonly id: string; readonly body?: TunnelPasswordRequest | undefined }, options?: CallOptions) => transport.json<TunnelPassword>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/tunnel-password`, body: input.body }, options),
  /** List the branches of a database. `GET /v1/databases/{id}/branches` */
  listDatabaseBranches: (input: { readonly id: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly DatabaseBranch[]>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/branches`, query: input.query }, options),
  /** Create a branch of a database. `POST /v1/databases/{id}/branches` */
  createDatabaseBranch: (input: { readonly id: string; readonly body: CreateDatabaseBranchRequest }, options?: CallOptions) => transport.json<DatabaseBranch>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/branches`, body: input.body }, options),
  /** Get a branch of a database. `GET /v1/databases/{id}/branches/{branch_name}` */
  getDatabaseBranch: (input: { readonly id: string; readonly branch_name: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<DatabaseBranch>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/branches/${encodeURIComponent(input.branch_name)}`, query: input.query }, options),
  /** Delete a branch of a database. `DELETE /v1/databases/{id}/branches/{branch_name}` */
  deleteDatabaseBranch: (input: { readonly id: string; readonly branch_name: string }, options?: CallOptions) => transport.json<DatabaseBranch>({ method: 'DELETE', path: `/v1/databases/${encodeURIComponent(input.id)}/branches/${encodeURIComponent(input.branch_name)}` }, options),
  /** Promote a branch of a database. `POST /v1/databases/{id}/branches/{branch_name}/promote` */
  promoteDatabaseBranch: (input: { readonly id: string; readonly branch_name: string }, options?: CallOptions) => transport.json<DatabaseBranch>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/branches/${encodeURIComponent(input.branch_name)}/promote` }, options),
  /** Get the state of the backups of a database. `GET /v1/databases/{id}/backups` */
  getDatabaseBackups: (input: { readonly id: string }, options?: CallOptions) => transport.json<DatabaseBackupInfo>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/backups` }, options),
  /** List the snapshots of a database. `GET /v1/databases/{id}/backups/snapshots` */
  listDatabaseSnapshots: (input: { readonly id: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly DatabaseSnapshot[]>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/snapshots`, query: input.query }, options),
  /** Take a snapshot of a database. `POST /v1/databases/{id}/backups/snapshots` */
  createDatabaseSnapshot: (input: { readonly id: string; readonly body: CreateDatabaseSnapshotRequest }, options?: CallOptions) => transport.json<DatabaseSnapshot>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/snapshots`, body: input.body }, options),
  /** Get a snapshot of a database. `GET /v1/databases/{id}/backups/snapshots/{snapshot_name}` */
  getDatabaseSnapshot: (input: { readonly id: string; readonly snapshot_name: string; readonly query?: {
  /** Answers once `status` has this value, or one of several (`running,failed`); otherwise with its current value when a final state is reached or the timeout is over. */
  readonly wait?: string | undefined
  /** Seconds to wait at most. */
  readonly timeout?: number | undefined
} | undefined }, options?: CallOptions) => transport.json<DatabaseSnapshot>({ method: 'GET', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/snapshots/${encodeURIComponent(input.snapshot_name)}`, query: input.query }, options),
  /** Delete a snapshot of a database. `DELETE /v1/databases/{id}/backups/snapshots/{snapshot_name}` */
  deleteDatabaseSnapshot: (input: { readonly id: string; readonly snapshot_name: string }, options?: CallOptions) => transport.json<DatabaseSnapshotAction>({ method: 'DELETE', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/snapshots/${encodeURIComponent(input.snapshot_name)}` }, options),
  /** Restore a database from a snapshot. `POST /v1/databases/{id}/backups/restore` */
  restoreDatabase: (input: { readonly id: string; readonly body: RestoreDatabaseRequest }, options?: CallOptions) => transport.json<DatabaseSnapshotAction>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/restore`, body: input.body }, options),
  /** Restore a database to an instant. `POST /v1/databases/{id}/backups/restore-to` */
  restoreDatabaseTo: (input: { readonly id: string; readonly body: RestoreDatabaseToRequest }, options?: CallOptions) => transport.json<DatabaseSnapshotAction>({ method: 'POST', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/restore-to`, body: input.body }, options),
  /** Send the backups of a database to object storage. `PUT /v1/databases/{id}/backups/target` */
  setDatabaseBackupTarget: (input: { readonly id: string; readonly body: DatabaseBackupTarget }, options?: CallOptions) => transport.json<DatabaseBackupInfo>({ method: 'PUT', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/target`, body: input.body }, options),
  /** Send the backups of a database to volumes. `DELETE /v1/databases/{id}/backups/target` */
  deleteDatabaseBackupTarget: (input: { readonly id: string }, options?: CallOptions) => transport.json<DatabaseBackupInfo>({ method: 'DELETE', path: `/v1/databases/${encodeURIComponent(input.id)}/backups/target` }, options),
  /** Get the registry of the installation. `GET /v1/registry` */
  getRegistry: (options?: CallOptions) => transport.json<OwnRegistry>({ method: 'GET', path: `/v1/registry` }, options),
  /** Get a token for the registry. `GET /v1/registry/token` */
  getRegistryToken: (input: { readonly query?: {
  /** Name of the registry. */
  readonly service?: string | undefined
  /** Wanted access, `repository:<project>/<name>:<pull,push,delete>`; may be repeated. */
  readonly scope?: readonly string[] | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<RegistryToken>({ method: 'GET', path: `/v1/registry/token`, query: input.query, open: true }, options),
  /** List registry credentials. `GET /v1/registry-credentials` */
  listRegistryCredentials: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `username` is exactly this. */
  readonly username?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly RegistryCredential[]>({ method: 'GET', path: `/v1/registry-credentials`, query: input.query }, options),
  /** Set a registry credential. `PUT /v1/registry-credentials` */
  putRegistryCredential: (input: { readonly body: PutRegistryCredentialRequest }, options?: CallOptions) => transport.json<RegistryCredential>({ method: 'PUT', path: `/v1/registry-credentials`, body: input.body }, options),
  /** Get a registry credential. `GET /v1/registry-credentials/{host}` */
  getRegistryCredential: (input: { readonly host: string }, options?: CallOptions) => transport.json<RegistryCredential>({ method: 'GET', path: `/v1/registry-credentials/${encodeURIComponent(input.host)}` }, options),
  /** Delete a registry credential. `DELETE /v1/registry-credentials/{host}` */
  deleteRegistryCredential: (input: { readonly host: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/registry-credentials/${encodeURIComponent(input.host)}` }, options),
  /** List the TCP services of an app. `GET /v1/apps/{app_name}/services` */
  listTcpServices: (input: { readonly app_name: string; readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
} | undefined }, options?: CallOptions) => transport.json<readonly TcpService[]>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/services`, query: input.query }, options),
  /** Get a TCP service. `GET /v1/apps/{app_name}/services/{service_name}` */
  getTcpService: (input: { readonly app_name: string; readonly service_name: string }, options?: CallOptions) => transport.json<TcpService>({ method: 'GET', path: `/v1/apps/${encodeURIComponent(input.app_name)}/services/${encodeURIComponent(input.service_name)}` }, options),
  /** Create or change a TCP service. `PUT /v1/apps/{app_name}/services/{service_name}` */
  putTcpService: (input: { readonly app_name: string; readonly service_name: string; readonly body: PutTcpServiceRequest }, options?: CallOptions) => transport.json<TcpService>({ method: 'PUT', path: `/v1/apps/${encodeURIComponent(input.app_name)}/services/${encodeURIComponent(input.service_name)}`, body: input.body }, options),
  /** Delete a TCP service. `DELETE /v1/apps/{app_name}/services/{service_name}` */
  deleteTcpService: (input: { readonly app_name: string; readonly service_name: string }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/apps/${encodeURIComponent(input.app_name)}/services/${encodeURIComponent(input.service_name)}` }, options),
  /** List hosts. `GET /v1/admin/hosts` */
  listHosts: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
  /** Only items whose `status` is exactly this. */
  readonly status?: 'up' | 'suspected' | 'lost' | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly Host[]>({ method: 'GET', path: `/v1/admin/hosts`, query: input.query }, options),
  /** Get a host. `GET /v1/admin/hosts/{host_id}` */
  getHost: (input: { readonly host_id: string }, options?: CallOptions) => transport.json<HostDetails>({ method: 'GET', path: `/v1/admin/hosts/${encodeURIComponent(input.host_id)}` }, options),
  /** Remove a host. `DELETE /v1/admin/hosts/{host_id}` */
  removeHost: (input: { readonly host_id: string; readonly query?: {
  /** Gives up the VMs that are still there and replaces them on other hosts. Only for a host that never comes back: what still runs there is no longer managed, and volumes on it are out of reach. */
  readonly force?: boolean | undefined
} | undefined }, options?: CallOptions) => transport.json<Acknowledgement>({ method: 'DELETE', path: `/v1/admin/hosts/${encodeURIComponent(input.host_id)}`, query: input.query }, options),
  /** Cordon a host. `POST /v1/admin/hosts/{host_id}/cordon` */
  cordonHost: (input: { readonly host_id: string }, options?: CallOptions) => transport.json<Host>({ method: 'POST', path: `/v1/admin/hosts/${encodeURIComponent(input.host_id)}/cordon` }, options),
  /** Uncordon a host. `POST /v1/admin/hosts/{host_id}/uncordon` */
  uncordonHost: (input: { readonly host_id: string }, options?: CallOptions) => transport.json<Host>({ method: 'POST', path: `/v1/admin/hosts/${encodeURIComponent(input.host_id)}/uncordon` }, options),
  /** Drain a host. `POST /v1/admin/hosts/{host_id}/drain` */
  drainHost: (input: { readonly host_id: string }, options?: CallOptions) => transport.json<Host>({ method: 'POST', path: `/v1/admin/hosts/${encodeURIComponent(input.host_id)}/drain` }, options),
  /** Set the labels of a host. `PUT /v1/admin/hosts/{host_id}/labels` */
  setHostLabels: (input: { readonly host_id: string; readonly body: HostLabelsRequest }, options?: CallOptions) => transport.json<Host>({ method: 'PUT', path: `/v1/admin/hosts/${encodeURIComponent(input.host_id)}/labels`, body: input.body }, options),
  /** List the labels that apps can use. `GET /v1/host-labels` */
  listHostLabels: (input: { readonly query?: {
  /** Maximum number of items in the answer, 1 to 1000; other values are clamped. Default: all. */
  readonly limit?: number | undefined
  /** Position in the list where the page begins, from the `Link` header of the previous page. */
  readonly cursor?: string | undefined
  /** Items to skip. Inserts shift the items; prefer `cursor`. */
  readonly offset?: number | undefined
  /** Only items whose `name` is exactly this. */
  readonly name?: string | undefined
} | undefined } = {}, options?: CallOptions) => transport.json<readonly HostLabel[]>({ method: 'GET', path: `/v1/host-labels`, query: input.query }, options),
})
