"""What the API says when it can't serve: OpenAI's error object, with true numbers in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

# Made once: json.dumps makes an encoder at each call, and a stream encodes each token's frame.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class ApiError(Exception):
    """An answer other than success. type: invalid_request_error, authentication_error, …"""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.type, self.param, self.code = type, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        fields = {"message": self.message, "type": self.type, "param": self.param}
        return {"error": {**fields, "code": self.code}}

    def response(self) -> JsonResponse:
        return JsonResponse(self.body, self.status, self.headers)


class JsonResponse(Response):
    """JSON as a person reads it in a terminal: text unescaped, no NaN."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dump(content)


def dump(data: Any) -> bytes:
    """Compact JSON. Half a surrogate pair, which UTF-8 has no bytes for, stays escaped."""
    return _encode(data).encode("utf-8", "backslashreplace")


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def busy(message: str, code: str, retry_after_s: int = 1) -> ApiError:
    """503: not now. The client may come again after that many seconds."""
    headers = {"Retry-After": str(retry_after_s)}
    return ApiError(503, message, type="server_error", code=code, headers=headers)


def too_many(message: str, code: str, retry_after_s: int = 1) -> ApiError:
    """429: this client asks for more than its share."""
    headers = {"Retry-After": str(retry_after_s)}
    return ApiError(429, message, type="rate_limit_error", code=code, headers=headers)


def forbidden(message: str) -> ApiError:
    return ApiError(403, message, type="permission_error", code="not_allowed")


def unauthorized(message: str) -> ApiError:
    headers = {"WWW-Authenticate": "Bearer"}
    code = "invalid_api_key"
    return ApiError(401, message, type="authentication_error", code=code, headers=headers)


def internal(message: str) -> ApiError:
    return ApiError(500, message, type="server_error", code="engine_error")
