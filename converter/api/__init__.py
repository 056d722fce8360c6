"""The public functions: conversion, explanation, bisection, and the registration of users'
rules."""
