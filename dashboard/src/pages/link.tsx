/**
 * Pages that links in emails lead to. The URL fragment contains a secret, because browsers do not send fragments to
 * servers. A page sends the secret only after a click on its button.
 */
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Door } from '../shell/door.tsx'
import { ActionButton } from '../ui/action.tsx'
import { LinkButton } from '../ui/button.tsx'
import { Field, Form } from '../ui/form.tsx'
import { Card, Page } from '../ui/layout.tsx'

const secretOf = () => location.hash.slice(1)

export function VerifyEmail() {
  const [isDone, setDone] = useState(false)
  if (isDone)
    return (
      <Door title="Thank you" lead="Your email address is confirmed.">
        <LinkButton to="/apps">Continue</LinkButton>
      </Door>
    )
  return (
    <Door title="Confirm your email address" lead="This proves that you receive mail at this address.">
      <Form
        wide
        submit="Confirm"
        send={async () => {
          await api.verifyEmail({ body: { token: secretOf() } })
          await queryClient.invalidateQueries({ queryKey: ['me'] })
          setDone(true)
        }}
      />
    </Door>
  )
}

export function ResetPassword() {
  const navigate = useNavigate()
  return (
    <Door title="Choose a new password" lead="All sessions of your account end.">
      <Form
        wide
        submit="Set password"
        send={async values => {
          await api.resetPassword({ body: { token: secretOf(), new_password: values.text('password') } })
          await navigate({ to: '/signin', search: {}, replace: true })
        }}
      >
        <Field
          label="New password"
          name="password"
          type="password"
          required
          autoFocus
          minLength={8}
          autoComplete="new-password"
        />
      </Form>
    </Door>
  )
}

export function ForgotPassword() {
  const [isSent, setSent] = useState(false)
  return (
    <Door
      title="Reset your password"
      lead={isSent ? 'If the account exists, we have sent a link to it.' : 'We will send you a link.'}
    >
      {isSent ? (
        <Link to="/signin" search={{}} className="font-medium text-accent-text hover:underline">
          Back to signing in
        </Link>
      ) : (
        <Form
          wide
          submit="Send link"
          send={async values => {
            await api.forgotPassword({ body: { email: values.text('email') } })
            setSent(true)
          }}
        >
          <Field label="Email" name="email" type="email" required autoFocus autoComplete="username" />
        </Form>
      )}
    </Door>
  )
}

/** Accepts an invitation for the signed-in account, so it needs a session. */
export function AcceptInvitation() {
  const navigate = useNavigate()
  return (
    <Page title="Invitation">
      <Card title="Join the project" lead="You join with the account that you are signed in with.">
        <ActionButton
          look="primary"
          done="You are now a member"
          act={async () => {
            const [invitation_id = '', secret = ''] = secretOf().split('.')
            await api.acceptInvitation({ invitation_id, body: { secret } })
            await queryClient.invalidateQueries({ queryKey: ['projects'] })
            await navigate({ to: '/apps', replace: true })
          }}
        >
          Accept
        </ActionButton>
      </Card>
    </Page>
  )
}
